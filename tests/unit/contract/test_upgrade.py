"""Two versions of SGLang in one table: equal ones have nothing against them, and whatever got worse is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.terms import ExitCode, Lane, Outcome
from runner.contract.conversion.recording import Change
from runner.contract.result import ContractOutcome, ContractResult, Counts, Pin, Test
from runner.contract.upgrade import Findings, Side, Upgrade, markdown, table, write_upgrade
from runner.verdict.model import CellVerdict, Reason, Rule, Verdict


def kit(problems: tuple[str, ...] = (), **tests: str) -> ContractResult:
    """A result with these tests and outcomes."""
    passed = list(tests.values()).count("passed")
    return ContractResult(
        contract="kit",
        run="r",
        outcome=ContractOutcome.PASS if passed == len(tests) else ContractOutcome.FAIL,
        pin=Pin(expected="0.5.23"),
        problems=problems,
        counts=Counts(collected=len(tests), passed=passed, failed=len(tests) - passed),
        tests=tuple(Test(name=name, file="kit", outcome=outcome) for name, outcome in tests.items()),
    )


def verdict(turns: int = 28, **cells: Outcome) -> Verdict:
    """A verdict with these cells; a failed one has a reason."""
    return Verdict(
        run_id="r",
        exit_code=ExitCode.OK,
        cells=[
            CellVerdict(
                cell=name,
                family="qwen3",
                lane=Lane.V1_OPENAI,
                scenario="baseline",
                outcome=outcome,
                failed=outcome is not Outcome.PASS,
                planned_samples=2,
                completed_samples=2,
                turns=turns,
                reasons=[] if outcome is Outcome.PASS else [Reason(rule=Rule.HARD, message="one token lost")],
            )
            for name, outcome in cells.items()
        ],
    )


CHANGE = Change("request", "choice-any", "tool_choice", "required", "auto")
GOOD = kit(a="passed", b="passed")


def upgrade(*acts: Callable[[Findings], None]) -> Upgrade:
    """What these checks make."""
    findings = Findings()
    for act in acts:
        act(findings)
    return findings.result("r", Side(version="0.5.23", image="e:1"), Side(version="0.5.24", image="c:2"), {})


def test_two_of_the_same_differ_in_nothing_and_nothing_speaks_against_it() -> None:
    result = upgrade(
        lambda to: to.packages({"a": "1"}, {"a": "1"}),
        lambda to: to.requirements({"a": "==1"}, {"a": "==1"}),
        lambda to: to.stubs("8 modules import", "8 modules import"),
        lambda to: to.kit(GOOD, GOOD),
        lambda to: to.conversion(197, []),
        lambda to: to.ours(GOOD, GOOD),
        lambda to: to.cells(verdict(cell=Outcome.PASS), verdict(cell=Outcome.PASS)),
    )
    assert (result.changed, result.problems, result.exit_code) == ((), (), ExitCode.OK)
    assert all(row.same for row in result.rows)
    assert "differs" not in "\n".join(table(result))


@pytest.mark.parametrize(
    ("act", "changed", "problem"),
    [
        pytest.param(
            lambda to: to.stubs("8 modules import", "fails", "triton has no Config"),
            None,
            "stub check: triton has no Config",
            id="stubs too small",
        ),
        pytest.param(
            lambda to: to.kit(GOOD, kit(a="passed", b="failed")),
            "kit b: passed -> failed",
            "kit b: passed -> failed",
            id="a test that fails now",
        ),
        pytest.param(
            lambda to: to.kit(GOOD, kit(a="passed")),
            "kit b: passed -> not there",
            "kit b: passed -> not there",
            id="a test that is gone",
        ),
        pytest.param(
            lambda to: to.kit(GOOD, kit(a="passed", b="passed", c="failed")),
            "kit c: not there -> failed",
            "kit c: not there -> failed",
            id="a new test that fails",
        ),
        pytest.param(
            lambda to: to.kit(GOOD, kit(("the engine ended with 1",))),
            "kit a: passed -> not there",
            "kit: the engine ended with 1",
            id="an engine that does not start",
        ),
        pytest.param(
            lambda to: to.conversion(197, [CHANGE]),
            'conversion tool_choice: "required" -> "auto", in 1 case: request choice-any',
            "1 of the conversion's cases changed",
            id="a case that is converted differently",
        ),
        pytest.param(
            lambda to: to.ours(GOOD, kit(("request x: not listed",), a="passed", b="failed")),
            None,
            "ours against it: request x: not listed",
            id="a difference that is not listed",
        ),
        pytest.param(
            lambda to: to.cells(verdict(cell=Outcome.PASS), verdict(cell=Outcome.HARD)),
            "cell cell: pass -> hard",
            "cell cell: pass -> hard: one token lost",
            id="a cell that fails",
        ),
        pytest.param(
            lambda to: to.cells(verdict(cell=Outcome.PASS), verdict()),
            "cell cell: pass -> not planned",
            "cell cell: pass -> not planned",
            id="a cell that is gone",
        ),
    ],
)
def test_what_got_worse_is_named_and_ends_with_1(
    act: Callable[[Findings], None], changed: str | None, problem: str
) -> None:
    result = upgrade(act)
    assert result.exit_code is ExitCode.VERIFICATION_FAILED
    assert problem in result.problems
    assert changed is None or changed in result.changed
    assert any(not row.same for row in result.rows)


@pytest.mark.parametrize(
    ("act", "changed"),
    [
        pytest.param(
            lambda to: to.packages({"openai": "2.6", "old": "1"}, {"openai": "2.8"}),
            ["package old: 1 -> none", "package openai: 2.6 -> 2.8"],
            id="packages",
        ),
        pytest.param(
            lambda to: to.kit(kit(a="failed"), kit(a="passed")), ["kit a: failed -> passed"], id="a test that is mended"
        ),
        pytest.param(lambda to: to.kit(kit(a="failed"), kit(a="failed")), [], id="a test that failed before"),
        pytest.param(
            lambda to: to.cells(verdict(28, cell=Outcome.PASS), verdict(30, cell=Outcome.PASS)), [], id="other turns"
        ),
    ],
)
def test_what_is_only_different_is_shown_and_speaks_not_against_it(
    act: Callable[[Findings], None], changed: list[str]
) -> None:
    result = upgrade(act)
    assert (list(result.changed), result.problems) == (changed, ())


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda to: to.not_made("cells", "no Docker"), id="something underneath broke"),
        pytest.param(lambda to: to.kit(kit(("time-out",)), GOOD), id="the old version could not be asked"),
    ],
)
def test_what_could_not_be_checked_is_neither_a_pass_nor_against_the_version(act: Callable[[Findings], None]) -> None:
    result = upgrade(act)
    assert (result.problems, result.exit_code) == ((), ExitCode.INFRASTRUCTURE)
    assert result.broken
    assert f"- {result.broken[0]}" in markdown(result)


def test_what_changed_alike_is_one_line_that_names_its_cases() -> None:
    alike = [Change("request", name, f"tools[{at}].strict", True, "(absent)") for name in "ab" for at in (0, 1)]
    result = upgrade(lambda to: to.conversion(197, [*alike, Change("reply", "c", "id", 1, 2)]))
    assert result.changed == (
        "conversion tools[*].strict: true -> (absent), in 2 cases: request a, request b",
        "conversion id: 1 -> 2, in 1 case: reply c",
    )
    assert result.problems == ("3 of the conversion's cases changed",)


def test_the_table_has_a_row_for_each_check_and_marks_what_differs() -> None:
    lines = table(upgrade(lambda to: to.kit(GOOD, kit(a="passed")), lambda to: to.conversion(197, [])))
    assert lines[0].split() == ["|", "check", "|", "old:", "0.5.23", "|", "new:", "0.5.24", "|", "|"]
    assert len({len(line) for line in lines}) == 1
    assert [line.rstrip(" |").endswith("differs") for line in lines[2:]] == [True, False]


def test_both_files_say_the_same(tmp_path: Path) -> None:
    result = upgrade(
        lambda to: to.conversion(197, [CHANGE]),
        lambda to: to.requirements({"torch": "==2.13.0"}, {"torch": "==2.14.1", "more": ""}),
    )
    write_upgrade(result, tmp_path)
    assert Upgrade.model_validate_json((tmp_path / "upgrade.json").read_text()) == result
    text = (tmp_path / "upgrade.md").read_text()
    assert text == markdown(result)
    assert "- torch: ==2.13.0 -> ==2.14.1" in text
    assert "- more: not declared -> any version" in text
    assert "1 of the conversion's cases changed" in text
