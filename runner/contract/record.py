"""The record of a test run, written line by line by what ran it, as tests and counts.

The format is the one of recorder.py: start, collected, begin, report, end, finish, one JSON object each. A record may
break off at any line: what had begun and not ended is unfinished.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from runner.contract.result import Counts, Test

Line = dict[str, object]
"""One line of a record."""

_ERROR = re.compile(r"[\w.]*(Error|Exception|Failed|Exit|Interrupt)\b")


def read_record(record: Sequence[Line], root: Path) -> tuple[tuple[Test, ...], Counts, dict[str, str]]:
    """Tests, counts and versions. Paths of files are told relative to `root`."""
    files: dict[str, str] = {}
    phases: dict[str, list[Line]] = {}
    ended, begun = set(), set()
    subtests = {"passed": 0, "failed": 0}
    versions: dict[str, str] = {}
    told = False
    for line in record:
        node = str(line.get("node", ""))
        match line["kind"]:
            case "start":
                versions = {name: str(value) for name, value in line.items() if name not in ("kind", "subtests")}
                told = bool(line["subtests"])
            case "collected":
                path = Path(str(line["file"]))
                files[node] = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
            case "begin":
                begun.add(node)
            case "end":
                ended.add(node)
            case "report" if line["subtest"]:
                outcome = str(line["outcome"])
                subtests[outcome] = subtests.get(outcome, 0) + 1
                phases.setdefault(node, []).append(line)
            case "report":
                phases.setdefault(node, []).append(line)
    tests = tuple(_test(node, file, phases.get(node, []), node in begun, node in ended) for node, file in files.items())
    each = [test.outcome for test in tests]
    counts = Counts(
        collected=len(tests),
        passed=each.count("passed"),
        failed=each.count("failed"),
        skipped=each.count("skipped"),
        xfailed=each.count("xfailed"),
        unfinished=each.count("unfinished") + each.count("not begun"),
        subtests_passed=subtests["passed"] if told else None,
        subtests_failed=subtests["failed"] if told else None,
    )
    return tests, counts, versions


def _test(node: str, file: str, phases: Sequence[Line], begun: bool, ended: bool) -> Test:
    failed = [line for line in phases if line["outcome"] == "failed"]
    skipped = [line for line in phases if line["outcome"] == "skipped" and not line["subtest"]]
    if failed:
        outcome = "failed"
    elif not ended:
        outcome = "unfinished" if begun else "not begun"
    elif skipped:
        outcome = "xfailed" if any(line["expected"] for line in skipped) else "skipped"
    else:
        outcome = "passed"
    seconds = sum(float(str(line["seconds"])) for line in phases if not line["subtest"])
    return Test(name=node, file=file, outcome=outcome, seconds=seconds, text="\n".join(str(x["text"]) for x in failed))


def reason_of(text: str) -> str:
    """The line of a traceback that says what was wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    named = [line for line in marked if _ERROR.match(line)]
    return (named or marked or lines[-1:] or ["no reason given"])[0]
