"""junit.xml: one testcase per cell, for the CI systems that read nothing else.

A verification that failed is a failure, missing evidence and broken infrastructure are errors, and what cannot run is
skipped with its reason. Only a run that lacks evidence as a whole gets one more testcase, or a reader would see green.
"""

from __future__ import annotations

import re
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from runner.base.terms import Outcome
from runner.report.text import (
    bad_cells,
    diff_lines,
    finding_title,
    first_finding,
    headline,
    outcome_word,
    plain,
    remarks,
    retries_word,
    run_problems,
)
from runner.verdict.model import CellVerdict, Verdict

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(verdict: Verdict) -> JUnitXml:
    """The document."""
    document = JUnitXml("tito-e2e")
    suite = TestSuite(f"run {verdict.run_id}")
    suite.add_property("verdict", headline(verdict))
    for cell in verdict.cells:
        suite.add_testcase(_testcase(cell))
    problems = run_problems(verdict)
    if problems or not (bad_cells(verdict) or verdict.passed):
        case = TestCase("the run as a whole", classname="run")
        kind, text = problems[0] if problems else ("incomplete", headline(verdict))
        case.result = [Error(_xml(text.splitlines()[0]), kind)]
        suite.add_testcase(case)
    document.add_testsuite(suite)
    return document


def write_junit(verdict: Verdict, path: Path) -> None:
    """Write the document."""
    junit(verdict).write(str(path), pretty=True)


def _testcase(cell: CellVerdict) -> TestCase:
    case = TestCase(
        cell.cell,
        classname=f"{cell.family}.{cell.lane}",
        time=round(cell.wall.seconds if cell.wall else cell.seconds, 3),
    )
    first = cell.reasons[0].message if cell.reasons else ""
    if cell.outcome is Outcome.NOT_APPLICABLE:
        case.result = [Skipped(_xml(first))]
        return case
    if cell.outcome is not Outcome.PASS:
        kind = Error if cell.outcome in (Outcome.INFRA, Outcome.INCOMPLETE) else Failure
        result = kind(_xml(first), outcome_word(cell))
        result.text = _xml(_details(cell))
        case.result = [result]
    said = (
        f"outcome {outcome_word(cell)}; samples {cell.completed_samples}/{cell.planned_samples}; turns {cell.turns};"
        f" prompt tokens {cell.prompt_tokens}; sampled tokens {cell.completion_tokens};"
        f" retries {retries_word(cell.retries)}"
    )
    case.system_out = _xml("\n".join([said, *remarks(cell)]))
    return case


def _details(cell: CellVerdict) -> str:
    lines = [f"{reason.rule}: {reason.message}" for reason in cell.reasons]
    found = first_finding(cell)
    if found:
        lines.append(finding_title(*found))
        lines += diff_lines(found[1].diff) if found[1].diff else []
    lines += [f"| {line}" for line in cell.log_tail]
    return "\n".join([*lines, f"artifacts: {cell.artifacts}", f"again: {cell.reproduce}"])


def _xml(text: str) -> str:
    """Without the characters that XML cannot hold, which models do print."""
    return _NOT_XML.sub("\ufffd", plain(text))
