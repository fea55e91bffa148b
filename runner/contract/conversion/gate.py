"""The gate: our conversion against SGLang's, as the two images have them installed.

Every case of the corpus is one test of the result. A difference that is not listed with its reason fails its case, and
so does a listed one that is gone; with an older recording of SGLang beside it, what SGLang itself changed is named too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runner.contract.conversion import listed, replies, requests
from runner.contract.conversion.differences import Difference, compare
from runner.contract.conversion.judge import Listed, judge
from runner.contract.conversion.recording import Recording, changes
from runner.contract.result import ContractOutcome, ContractResult, Counts, Pin, Test

NAME = "anthropic-conversion"
LEAST = {"request": 60, "reply": 40}
"""Cases of each kind that SGLang must convert: where most are refused, nothing is compared."""

_FILES = {"request": "requests", "reply": "replies"}


def check(
    ours: Recording,
    theirs: Recording,
    *,
    run_id: str,
    sglang: str,
    against: Recording | None = None,
    seconds: float = 0.0,
) -> ContractResult:
    """Judge two recordings of one corpus. `sglang` is the version that the engine image is meant to have."""
    pin = Pin(expected=sglang, found=theirs.version, told_by="the engine image", drift=theirs.version != sglang)
    problems = []
    if pin.drift:
        problems.append(f"the engine image has SGLang {theirs.version}, and is meant to have {sglang}")
    wrong, loose = _wrong(ours, theirs)
    for kind, least in LEAST.items():
        made = sum(which == kind and outcome.refused is None for (which, _), outcome in theirs.cases().items())
        if made < least:
            problems.append(f"SGLang converts {made} {_FILES[kind]} of the corpus, expected at least {least}")
    tests = tuple(_test(kind, name, wrong.get((kind, name), ())) for kind, name in theirs.cases())
    problems += loose
    problems += [line for lines in wrong.values() for line in lines]
    if against is not None:
        problems += [f"changed since SGLang {against.version}: {change}" for change in changes(against, theirs)]
    failed = sum(test.outcome == "failed" for test in tests)
    return ContractResult(
        contract=NAME,
        run=run_id,
        outcome=ContractOutcome.FAIL if problems else ContractOutcome.PASS,
        problems=tuple(problems),
        pin=pin,
        counts=Counts(collected=len(tests), passed=len(tests) - failed, failed=failed),
        seconds=round(seconds, 3),
        interpreter=theirs.image,
        versions={"sglang": theirs.version, "session-server": ours.version},
        tests=tests,
    )


def _wrong(ours: Recording, theirs: Recording) -> tuple[dict[tuple[str, str], tuple[str, ...]], list[str]]:
    """What is not as listed: lines of each case that has some, and lines that belong to no case."""
    wrong: dict[tuple[str, str], tuple[str, ...]] = {}
    loose: list[str] = []
    tables: tuple[tuple[str, Mapping[str, Mapping[str, Any]], Sequence[Listed]], ...] = (
        ("request", {name: case.body for name, case in requests.corpus().items()}, listed.REQUESTS),
        ("reply", {name: case.body for name, case in replies.corpus().items()}, listed.REPLIES),
    )
    mine, other = ours.cases(), theirs.cases()
    for kind, bodies, table in tables:
        found: dict[str, list[Difference]] = {}
        for name in bodies:
            pair = mine.get((kind, name)), other.get((kind, name))
            if pair[0] is None or pair[1] is None:
                loose.append(f"{kind} {name}: not in both recordings; they were made from another corpus")
                found[name] = []
            else:
                found[name] = compare(pair[0].plain(), pair[1].plain())
        for line in judge(bodies, found, table):
            name = line.partition(":")[0]
            if name in bodies:
                wrong[kind, name] = (*wrong.get((kind, name), ()), f"{kind} {line}")
            else:
                loose.append(f"{kind}: {line}")
    return wrong, loose


def _test(kind: str, name: str, lines: Sequence[str]) -> Test:
    outcome = "failed" if lines else "passed"
    return Test(
        name=f"{kind} {name}",
        file=f"{Path(__file__).parent.name}/{_FILES[kind]}",
        outcome=outcome,
        text="\n".join(lines),
    )
