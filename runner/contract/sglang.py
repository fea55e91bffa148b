"""SGLang's own tests of its Anthropic conversion, run from a checkout: the conversion that our server is paired with.

The tests run in another process that gets nothing of ours: a clean environment, a home directory of its own, the
checkout's pytest configuration or none, and the checkout first on the path - which is asked before, because an
installed SGLang that is tested by mistake would pass. A result is only a pass when every file was found, collected,
had a test that ran, and the run came to its end with 0. Whatever is else is named.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.contract import recorder
from runner.contract.checkout import PACKAGE, PINNED_COMMIT, TEST_FILES, configuration, drift_text, missing, read_pin
from runner.contract.record import Line, read_record, reason_of
from runner.contract.result import ContractOutcome, ContractResult, Counts, Pin, Test
from runner.ground.shell import Result, Run, run

NAME = "sglang-conversion"
OUTPUT = "output.log"
_PLUGIN = "contract_recorder"
_ASK_SECONDS = 60.0
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""What of our environment the tests get: what an interpreter needs to run at all."""

_ASK = """
import importlib.util as u
print("pytest", u.find_spec("pytest") is not None)
found = u.find_spec("sglang")
print("sglang", None if found is None else found.origin or list(found.submodule_search_locations)[0])
"""


@dataclass(frozen=True)
class Order:
    """What to run. `timeout` in seconds for all tests together; `interpreter` has pytest and SGLang's dependencies."""

    root: Path
    directory: Path
    """Where the output goes."""
    run_id: str
    interpreter: str
    files: tuple[str, ...] = TEST_FILES
    plugins: tuple[str, ...] = ()
    """Modules of pytest plugins that the tests need; what merely happens to be installed is not loaded."""
    timeout: float = 900.0
    accept_drift: bool = False


def check(order: Order, execute: Run = run) -> ContractResult:
    """Run the gate. Never raises because of the checkout: what is wrong is in the result."""
    root = order.root.absolute()
    problems = missing(root, order.files)
    pin = read_pin(root, accept=order.accept_drift, execute=execute) if root.is_dir() else Pin(expected=PINNED_COMMIT)
    if root.is_dir() and pin.drift and not order.accept_drift:
        problems.append(f"{drift_text(pin)}; move the pin on purpose, or run with --accept-drift")
    if problems:
        return _result(order, pin, problems)
    with tempfile.TemporaryDirectory(prefix="tito-contract-") as scratch:
        return _run(order, root, pin, Path(scratch), execute)


def unset(order: Order, reason: str, *, insist: bool) -> ContractResult:
    """The result where no checkout was named: skipped with the reason, or failed where somebody insists."""
    pin = Pin(expected=PINNED_COMMIT)
    if insist:
        return _result(order, pin, [reason]).model_copy(update={"source_root": None})
    return ContractResult(
        contract=NAME, run=order.run_id, outcome=ContractOutcome.SKIPPED, reason=reason, files=order.files, pin=pin
    )


def _run(order: Order, root: Path, pin: Pin, scratch: Path, execute: Run) -> ContractResult:
    env = _environment(root, scratch)
    problem = _ask(order, root, env, execute)
    if problem:
        return _result(order, pin, [problem])
    shutil.copy(recorder.__file__, scratch / f"{_PLUGIN}.py")
    record = Path(env[recorder.RECORD])
    record.touch()
    given = configuration(root, order.files)
    if given is None:
        given = scratch / "pytest.ini"
        given.write_text("[pytest]\n", encoding="utf-8")
    argv = (
        order.interpreter,
        *("-m", "pytest", "-p", "no:cacheprovider", "-c", str(given)),
        *(part for plugin in (_PLUGIN, *order.plugins) for part in ("-p", plugin)),
        *(f"--rootdir={root}", f"--confcutdir={root}", "-ra", "--tb=short", "--color=no"),
        *order.files,
    )
    done = execute((*_clean(env), *argv), timeout=order.timeout, cwd=root, log=order.directory / OUTPUT)
    return _judge(order, root, pin, argv, done, [json.loads(line) for line in _whole_lines(record)])


def _environment(root: Path, scratch: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    home = scratch / "home"
    home.mkdir()
    return kept | {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": os.pathsep.join([str((root / PACKAGE).parent), str(scratch)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "HF_HUB_OFFLINE": "1",
        recorder.RECORD: str(scratch / "record.jsonl"),
    }


def _clean(env: Mapping[str, str]) -> tuple[str, ...]:
    """A command prefix that lets nothing else of our environment through."""
    return ("env", "-i", *(f"{name}={value}" for name, value in sorted(env.items())))


def _ask(order: Order, root: Path, env: Mapping[str, str], execute: Run) -> str:
    """What keeps this interpreter from testing the checkout, or nothing."""
    asked = execute((*_clean(env), order.interpreter, "-c", _ASK), timeout=_ASK_SECONDS, cwd=root)
    if not asked.ok:
        return f"the interpreter {order.interpreter} does not run: {asked.tail(3) or asked.explain()}"
    said = dict(line.split(" ", 1) for line in asked.stdout.splitlines() if " " in line)
    if said.get("pytest") != "True":
        return (
            f"the interpreter {order.interpreter} has no pytest; name one that has it and SGLang's packages (--python)"
        )
    origin = said.get("sglang", "None")
    if not Path(origin).is_relative_to(root / PACKAGE):
        return f"sglang would be imported from {origin}, not from the checkout's {PACKAGE}"
    return ""


def _whole_lines(record: Path) -> Iterator[str]:
    for line in record.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield line


def _judge(
    order: Order, root: Path, pin: Pin, argv: tuple[str, ...], done: Result, record: list[Line]
) -> ContractResult:
    tests, counts, versions = read_record(record, root)
    problems = []
    if done.timed_out:
        running = [test.name for test in tests if test.outcome == "unfinished"]
        where = f"while {', '.join(running)} was running" if running else "while the files were being collected"
        problems.append(f"time-out: stopped after {order.timeout:g} s {where}")
    broken = [line for line in record if line["kind"] == "uncollected"]
    for line in broken:
        problems.append(f"cannot be collected: {line['node']}: {reason_of(str(line['text']))}")
    finished = any(line["kind"] == "finish" for line in record)
    if not done.timed_out:
        problems += _vacuous(order, tests, [str(line["node"]) for line in broken], finished)
    problems += [f"failed: {test.name}: {reason_of(test.text)}" for test in tests if test.outcome == "failed"]
    if not done.timed_out and not finished:
        running = [test.name for test in tests if test.outcome == "unfinished"]
        during = f" while {', '.join(running)} was running" if running else ""
        problems.append(f"pytest ended with {done.code} before the end of its run{during}: {done.tail(3)}")
    elif done.code != 0 and not problems:
        problems.append(f"pytest ended with {done.code}: {done.tail(3)}")
    return _result(order, pin, problems, tests=tests, counts=counts, versions=versions, argv=argv, seconds=done.seconds)


def _vacuous(order: Order, tests: Sequence[Test], broken: Sequence[str], finished: bool) -> Iterator[str]:
    """Files that prove nothing: no test in them, or none that ran."""
    for name in order.files:
        if not finished or any(node == name or name.endswith(f"/{node}") for node in broken):
            continue
        own = [test for test in tests if test.file == name]
        if not own and not broken:
            yield f"no test collected: {name} has none"
        elif own and all(test.outcome in ("skipped", "xfailed") for test in own):
            yield f"no test ran: all {len(own)} tests of {name} were skipped"


def _result(
    order: Order,
    pin: Pin,
    problems: Sequence[str],
    *,
    tests: tuple[Test, ...] = (),
    counts: Counts | None = None,
    versions: dict[str, str] | None = None,
    argv: tuple[str, ...] = (),
    seconds: float = 0.0,
) -> ContractResult:
    return ContractResult(
        contract=NAME,
        run=order.run_id,
        outcome=ContractOutcome.FAIL if problems else ContractOutcome.PASS,
        problems=tuple(problems),
        source_root=str(order.root),
        files=order.files,
        pin=pin,
        counts=counts or Counts(),
        seconds=round(seconds, 3),
        interpreter=order.interpreter,
        versions=versions or {},
        command=argv,
        tests=tests,
    )
