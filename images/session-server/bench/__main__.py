"""`python -m bench`: what turns cost against the stub alone, v1 and v2 (in both dialects), in one run."""

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
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path

from bench.load import Shape, Target, Wire, run
from bench.outcome import Outcome, Rounds, growth

ROOT = Path(__file__).parents[1]
SHAPES = (Shape(16, 20, 200), Shape(4, 60, 400))
WARM_UP = Shape(2, 3, 50)
STUB, VERSIONS, MESSAGES = "stub", ("v1", "v2"), "v2 messages"
TARGETS = (STUB, *VERSIONS, MESSAGES)
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


def measure(tokenizer: Path, repeats: int) -> dict[str, dict[Shape, Rounds]]:
    """`repeats` runs of every shape against the stub alone, v1 and v2, in turns: what slows one down slows down all."""
    outcomes: dict[tuple[str, Shape], list[Outcome]] = {key: [] for key in product(TARGETS, SHAPES)}
    with serving(tokenizer) as targets:
        for target in targets.values():
            asyncio.run(run(target, WARM_UP))
        for number, shape, (name, target) in product(range(repeats), SHAPES, targets.items()):
            outcome = asyncio.run(run(target, shape))
            outcomes[name, shape].append(outcome)
            print(f"run {number + 1} of {repeats}, {shape}, {name}: {outcome.rate:.0f} turns/s", file=sys.stderr)
    return {name: {shape: Rounds(outcomes[name, shape]) for shape in SHAPES} for name in TARGETS}


@contextmanager
def serving(tokenizer: Path) -> Iterator[dict[str, Target]]:
    """The engine stub, and a session server of each version in front of it.

    Raises:
        RuntimeError: one of them did not start.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        port_file, log = Path(folder) / "port", Path(folder) / "stub.log"
        stub = running.enter_context(process(["-m", "bench.stub", str(port_file), str(tokenizer)], {}, log))
        wait_for(stub, log, "the engine stub", port_file)
        engine = Target(stub.pid, int(port_file.read_text()), Wire.DIRECT)
        targets = {STUB: engine}
        for version in VERSIONS:
            port, log = free_port(), Path(folder) / f"{version}.log"
            environment = {
                "SESSION_SERVER_ENGINE_URL": f"http://127.0.0.1:{engine.port}",
                "SESSION_SERVER_CORE_VERSION": version,
                "SESSION_SERVER_TOKENIZER_PATH": str(tokenizer),
                "SESSION_SERVER_TITO_MODEL": "qwen3",
                "SESSION_SERVER_HOST": "127.0.0.1",
                "SESSION_SERVER_PORT": str(port),
            }
            server = running.enter_context(process(["-m", "session_server"], environment, log))
            wait_for(server, log, f"session server {version}", port)
            targets[version] = Target(server.pid, port, Wire.CHAT)
        targets[MESSAGES] = replace(targets["v2"], wire=Wire.MESSAGES)
        yield targets


def missed(row: dict[str, float], shape: Shape) -> str:
    """Which of the targets a row misses, in words; empty when it reaches them."""
    misses = []
    if row["turns_per_second"] < TURNS_PER_SECOND[shape]:
        misses.append(f"below {TURNS_PER_SECOND[shape]:.0f} turns/s")
    if row["growth"] > GROWTH:
        misses.append(f"grows more than {GROWTH} x")
    return ", ".join(misses)


def figures(rounds: Rounds, stub: Rounds) -> dict[str, float]:
    """A row of the table."""
    return {
        "turns_per_second": rounds.rate,
        "p50_ms": rounds.percentile(0.5),
        "p99_ms": rounds.percentile(0.99),
        "first_quarter_p50_ms": rounds.quarter(0),
        "last_quarter_p50_ms": rounds.quarter(3),
        "growth": growth(rounds, stub),
        "cpu_ms_per_turn": rounds.cpu_milliseconds,
        "first_quarter_cpu_ms": rounds.cpu_quarter(0),
        "last_quarter_cpu_ms": rounds.cpu_quarter(3),
    }


def line(name: str, row: dict[str, float]) -> str:
    """A row as text; the stub's growth is what the others' is measured by, so it has none."""
    cells = [
        f"{value:9.0f}"
        if key == "turns_per_second"
        else " " * 9
        if (name, key) == (STUB, "growth")
        else f"{value:9.2f}"
        for key, value in row.items()
    ]
    return f"{name:12}" + "".join(cells)


def main() -> int:
    """Print one table per shape; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--tokenizer", type=Path, default=ROOT.parent / "engine-cpu" / "models" / "qwen3")
    parser.add_argument("--repeats", type=int, default=5, help="runs per shape and target")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error(f"--repeats is {options.repeats}; at least one run is needed")
    results = measure(options.tokenizer.resolve(), options.repeats)
    document: dict[str, dict[str, dict[str, float]]] = {}
    for shape in SHAPES:
        print(f"\n{shape}\n{'':12}" + "".join(f"{title:>9}" for title in TITLES))
        stub = results[STUB][shape]
        document[str(shape)] = {name: figures(results[name][shape], stub) for name in TARGETS}
        for name, row in document[str(shape)].items():
            print(line(name, row) + (f"   {missed(row, shape)}" if name != STUB else ""))
    print(f"\nturns/s: the fastest of {options.repeats} runs; everything else: all of them together")
    if options.json is not None:
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
