"""What came of a contract: contract.json and junit.xml. The outcome is decided where the result is made, not here."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite
from pydantic import BaseModel, ConfigDict, Field

from runner.base.terms import ExitCode

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ContractOutcome(StrEnum):
    """How a contract ended."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    FAIL = "fail"
    SKIPPED = "skipped"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Pin(_Model):
    """The commit that is expected and the one that was found; `found` is None where the checkout does not say."""

    expected: str
    found: str | None = None
    told_by: str = ""
    changed: bool = False
    """Whether tracked files of the checkout differ from that commit."""
    drift: bool = False
    drift_accepted: bool = False


class Test(_Model):
    """One test. `outcome` is passed, failed, skipped, xfailed, or unfinished."""

    __test__ = False

    name: str
    file: str
    outcome: str
    seconds: float = 0.0
    text: str = ""


class Counts(_Model):
    """How many of each. Subtests are None where this pytest does not report them one by one."""

    collected: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    xfailed: int = 0
    unfinished: int = 0
    subtests_passed: int | None = None
    subtests_failed: int | None = None


class ContractResult(_Model):
    """contract.json."""

    schema_version: int = 1
    contract: str
    run: str
    outcome: ContractOutcome
    problems: tuple[str, ...] = ()
    reason: str = ""
    """Why it was skipped."""
    source_root: str | None = None
    files: tuple[str, ...] = ()
    pin: Pin
    counts: Counts = Counts()
    seconds: float = 0.0
    interpreter: str = ""
    versions: dict[str, str] = Field(default_factory=dict)
    command: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """1 for a failure, else 0."""
        return ExitCode.VERIFICATION_FAILED if self.outcome is ContractOutcome.FAIL else ExitCode.OK


def write_result(result: ContractResult, directory: Path) -> None:
    """Write contract.json and junit.xml into `directory`, which exists."""
    (directory / "contract.json").write_text(result.model_dump_json(indent=2) + "\n", encoding="utf-8")
    junit(result).write(str(directory / "junit.xml"), pretty=True)


def junit(result: ContractResult) -> JUnitXml:
    """One testcase per test, and one for the gate itself: what it found as a whole, or why it was skipped."""
    document = JUnitXml("tito-e2e contract")
    suite = TestSuite(result.contract)
    suite.add_property("run", result.run)
    suite.add_property("commit", f"expected {result.pin.expected}, found {result.pin.found or 'unknown'}")
    suite.add_property("drift accepted", str(result.pin.drift and result.pin.drift_accepted).lower())
    for name, value in result.counts.model_dump().items():
        suite.add_property(name, "not reported" if value is None else str(value))
    gate = TestCase("the gate", classname=result.contract, time=round(result.seconds, 3))
    if result.outcome is ContractOutcome.SKIPPED:
        gate.result = [Skipped(_xml(result.reason))]
    elif result.problems:
        failure = Failure(_xml(result.problems[0]), "contract")
        failure.text = _xml("\n".join(result.problems))
        gate.result = [failure]
    suite.add_testcase(gate)
    for test in result.tests:
        case = TestCase(test.name, classname=test.file, time=round(test.seconds, 3))
        if test.outcome in ("failed", "unfinished"):
            failure = Failure(_xml(f"{test.name} {test.outcome}"), test.outcome)
            failure.text = _xml(test.text)
            case.result = [failure]
        elif test.outcome != "passed":
            case.result = [Skipped(test.outcome)]
        suite.add_testcase(case)
    document.add_testsuite(suite)
    return document


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
