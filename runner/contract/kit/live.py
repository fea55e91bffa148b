"""The kit against the installed engine, from the host: build the image, run it once, judge what it wrote.

No network reaches the container and it needs no port: engine, kit and SDK are in it together. It carries our label and
a name, and is removed by name when its time is up.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.contract.record import Line, read_record, reason_of
from runner.contract.result import ContractOutcome, ContractResult, Pin, Test
from runner.ground.shell import Result, Run, run
from runner.ground.site import IMAGE_PREFIX, LABEL

NAME = "sglang-anthropic-kit"
IMAGE = "engine-kit"
EXPECTED_TESTS = 21
"""In the kit of the pinned SGLang; fewer would be tests that went away unseen."""

_HERE = Path(__file__).parent
_PARTS = ("Dockerfile", "driver.py", "requirements.lock")
_BUILD_SECONDS = 1800.0
_REMOVE_SECONDS = 60.0
_READY_SHARE = 0.6
"""Part of the whole time-out that the engine's start may take."""


@dataclass(frozen=True)
class KitOrder:
    """What to run. `timeout` in seconds for the engine's start and all tests together."""

    engine_image: str
    base_image: str
    directory: Path
    run_id: str
    sglang: str
    """The version of SGLang that the engine image is pinned to."""
    family: str = "qwen3"
    timeout: float = 900.0
    env: Mapping[str, str] = field(default_factory=dict)
    """What the docker command must be called with."""


def tag(order: KitOrder) -> str:
    """The image's name: a hash over its files and the images below it."""
    whole = hashlib.sha256(f"{order.engine_image}\0{order.base_image}\0".encode())
    for name in _PARTS:
        whole.update((_HERE / name).read_bytes())
    return f"{IMAGE_PREFIX}/{IMAGE}:{whole.hexdigest()[:12]}"


def check_live(order: KitOrder, execute: Run = run) -> ContractResult:
    """Build what is missing, run the kit, judge. What went wrong is in the result."""
    image = tag(order)
    if not execute(("docker", "image", "inspect", image), timeout=_REMOVE_SECONDS, env=order.env).ok:
        built = execute(_build(order, image), timeout=_BUILD_SECONDS, env=order.env, log=order.directory / "build.log")
        if not built.ok:
            return _result(order, [f"the image of the kit could not be built: {built.explain()}"])
    name = f"tito-{order.run_id}-kit"
    try:
        done = execute(_start(order, image, name), timeout=order.timeout, env=order.env)
    finally:
        execute(("docker", "rm", "--force", name), timeout=_REMOVE_SECONDS, env=order.env)
    (order.directory / "output.log").write_text(done.stderr + done.stdout, encoding="utf-8")
    return judge(order, done)


def _build(order: KitOrder, image: str) -> tuple[str, ...]:
    arguments = {"BASE_IMAGE": order.base_image, "ENGINE_IMAGE": order.engine_image}
    given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    return ("docker", "build", "--force-rm", "--tag", image, "--label", f"{LABEL}.image={IMAGE}", *given, str(_HERE))


def _start(order: KitOrder, image: str, name: str) -> tuple[str, ...]:
    return (
        *("docker", "run", "--rm", "--init", "--name", name, "--label", f"{LABEL}.run={order.run_id}"),
        *("--network", "none", "--read-only", "--tmpfs", "/tmp:mode=1777,size=1g", "--shm-size", "1g"),  # noqa: S108
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges:true", "--memory", "8g", "--pids-limit", "2048"),
        *("--env", f"FAMILY={order.family}", "--env", f"KIT_READY_SECONDS={_READY_SHARE * order.timeout:g}"),
        image,
    )


def judge(order: KitOrder, done: Result) -> ContractResult:
    """The result of what the container wrote: a pass only where every expected test ran and passed."""
    record = list(_lines(done.stdout))
    tests, counts, versions = read_record(record, Path("/"))
    found = versions.get("sglang")
    pin = Pin(expected=order.sglang, found=found, told_by="the engine image", drift=found != order.sglang)
    running = [test.name for test in tests if test.outcome == "unfinished"]
    problems = [str(line["text"]) for line in record if line["kind"] == "broken"]
    problems += [
        f"cannot be collected: {line['node']}: {line['text']}" for line in record if line["kind"] == "uncollected"
    ]
    finished = any(line["kind"] == "finish" for line in record)
    during = f" while {', '.join(running)} was running" if running else ""
    if done.timed_out:
        problems.append(f"time-out: stopped after {order.timeout:g} s{during}")
    elif not finished and not problems:
        problems.append(f"the kit ended with {done.code} before the end of its run{during}: {done.tail(3)}")
    if found is not None and pin.drift:
        problems.append(f"the engine image has SGLang {found}, and is pinned to {order.sglang}")
    if finished:
        problems += _problems(tests)
    return _result(order, problems, pin=pin).model_copy(
        update={"tests": tests, "counts": counts, "versions": versions, "seconds": round(done.seconds, 3)}
    )


def _problems(tests: Sequence[Test]) -> list[str]:
    problems = [f"failed: {test.name}: {reason_of(test.text)}" for test in tests if test.outcome == "failed"]
    problems += [f"did not run: {test.name} was skipped" for test in tests if test.outcome == "skipped"]
    if len(tests) < EXPECTED_TESTS:
        problems.append(f"{len(tests)} tests were found, expected at least {EXPECTED_TESTS}")
    return problems


def _lines(text: str) -> list[Line]:
    found = []
    for line in text.splitlines():
        if line.startswith('{"kind"'):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def _result(order: KitOrder, problems: Sequence[str], pin: Pin | None = None) -> ContractResult:
    return ContractResult(
        contract=NAME,
        run=order.run_id,
        outcome=ContractOutcome.FAIL if problems else ContractOutcome.PASS,
        problems=tuple(problems),
        pin=pin or Pin(expected=order.sglang),
        interpreter=order.engine_image,
    )
