"""`python -m bench`: turns per second and latencies of the stub alone, of v1 and of v2, in one run."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import Outcome, Shape, run

ROOT = Path(__file__).parents[1]
SHAPES = (Shape(16, 20, 200), Shape(4, 60, 400))
START_SECONDS = 120.0
TITLES = ("turns/s", "p50 ms", "p99 ms", "first q", "last q", "growth", "cpu ms", "cpu 1q", "cpu 4q")
TURNS_PER_SECOND = {SHAPES[0]: 400.0, SHAPES[1]: 250.0}
GROWTH = 1.3
"""What v1 and v2 should reach on two cores that nobody else uses."""


@contextmanager
def process(arguments: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A child that ends with the block; its output goes to `log`."""
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **environment}, stdout=output, stderr=output
        )
        try:
            yield child
        finally:
            child.terminate()
            child.wait(timeout=30)


def wait_for(child: subprocess.Popen[bytes], log: Path, what: str, ready: Path | int) -> None:
    """Wait until a file has content, or a port answers /health.

    Raises:
        RuntimeError: the child ended, or it took too long; with the end of its log.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and child.poll() is None:
        if isinstance(ready, Path):
            if ready.exists() and ready.read_text():
                return
        else:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{ready}/health", timeout=1):
                    return
            except OSError:
                pass
        time.sleep(0.05)
    raise RuntimeError(f"{what} did not start:\n{log.read_text()[-2000:]}")


def free_port() -> int:
    """A port that was free a moment ago."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def measure(tokenizer: Path, shapes: tuple[Shape, ...], repeats: int) -> dict[str, dict[str, Outcome]]:
    """The best of `repeats` runs of every shape against the stub alone, v1 and v2."""
    results: dict[str, dict[str, Outcome]] = {}
    with tempfile.TemporaryDirectory() as folder:
        port_file, log = Path(folder) / "port", Path(folder) / "stub.log"
        with process(["-m", "bench.stub", str(port_file), str(tokenizer)], {}, log) as stub:
            wait_for(stub, log, "the engine stub", port_file)
            stub_port = int(port_file.read_text())
            results["stub"] = _drive(stub, stub_port, shapes, repeats, direct=True)
            for version in ("v1", "v2"):
                port, log = free_port(), Path(folder) / f"{version}.log"
                environment = {
                    "SESSION_SERVER_ENGINE_URL": f"http://127.0.0.1:{stub_port}",
                    "SESSION_SERVER_CORE_VERSION": version,
                    "SESSION_SERVER_TOKENIZER_PATH": str(tokenizer),
                    "SESSION_SERVER_TITO_MODEL": "qwen3",
                    "SESSION_SERVER_HOST": "127.0.0.1",
                    "SESSION_SERVER_PORT": str(port),
                }
                with process(["-m", "session_server"], environment, log) as server:
                    wait_for(server, log, f"session server {version}", port)
                    results[version] = _drive(server, port, shapes, repeats, direct=False)
    return results


def _drive(
    target: subprocess.Popen[bytes], port: int, shapes: tuple[Shape, ...], repeats: int, *, direct: bool
) -> dict[str, Outcome]:
    def once(shape: Shape) -> Outcome:
        return asyncio.run(run(port, shape, pid=target.pid, direct=direct))

    once(Shape(2, 3, 50))
    return {str(shape): max((once(shape) for _ in range(repeats)), key=lambda o: o.rate) for shape in shapes}


def growth(target: Outcome, stub: Outcome) -> float:
    """Last-quarter p50 over first-quarter p50, less what the growing request body costs the stub alone."""
    grown = stub.quarter(3) - stub.quarter(0)
    return (target.quarter(3) - grown) / target.quarter(0)


def missed(row: dict[str, float], shape: Shape) -> str:
    """Which of the targets a row misses, in words; empty when it reaches them."""
    misses = []
    if row["turns_per_second"] < TURNS_PER_SECOND[shape]:
        misses.append(f"below {TURNS_PER_SECOND[shape]:.0f} turns/s")
    if row["growth"] > GROWTH:
        misses.append(f"grows more than {GROWTH} x")
    return ", ".join(misses)


def main() -> int:
    """Print one table per shape; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--tokenizer", type=Path, default=ROOT.parent / "engine-cpu" / "models" / "qwen3")
    parser.add_argument("--repeats", type=int, default=2, help="runs per shape; the best counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    results = measure(options.tokenizer.resolve(), SHAPES, options.repeats)
    document: dict[str, dict[str, dict[str, float]]] = {}
    for shape in SHAPES:
        print(f"\n{shape}\n{'':6}" + "".join(f"{title:>9}" for title in TITLES))
        document[str(shape)] = {}
        for name, outcomes in results.items():
            outcome = outcomes[str(shape)]
            row = {
                "turns_per_second": outcome.rate,
                "p50_ms": outcome.percentile(0.5),
                "p99_ms": outcome.percentile(0.99),
                "first_quarter_p50_ms": outcome.quarter(0),
                "last_quarter_p50_ms": outcome.quarter(3),
                "growth": growth(outcome, results["stub"][str(shape)]),
                "cpu_ms_per_turn": outcome.cpu_milliseconds,
                "first_quarter_cpu_ms": outcome.cpu_quarter(0),
                "last_quarter_cpu_ms": outcome.cpu_quarter(3),
            }
            document[str(shape)][name] = row
            print(
                f"{name:6}{row['turns_per_second']:9.0f}{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}"
                f"{row['first_quarter_p50_ms']:9.2f}{row['last_quarter_p50_ms']:9.2f}"
                + (f"{row['growth']:9.2f}" if name != "stub" else f"{'':9}")
                + f"{row['cpu_ms_per_turn']:9.2f}{row['first_quarter_cpu_ms']:9.2f}{row['last_quarter_cpu_ms']:9.2f}"
                + (f"   {missed(row, shape)}" if name != "stub" else "")
            )
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
