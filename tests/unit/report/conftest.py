"""One run that has a cell of every kind, for reports to show."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from runner.base.settings import Settings, variables
from runner.base.terms import ExitCode, Lane, Outcome
from runner.ledger.records import Finding, Severity, TokenDiff
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import Plan
from runner.verdict.model import CellVerdict, Reason, Rule, SampleState, SampleVerdict, Verdict

TAIL = "\x1b[31mlast\x1b[0m words\x07"
MakeCell = Callable[..., CellVerdict]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [variable.name for variable in variables()] + ["NO_COLOR", "FORCE_COLOR", "COLUMNS", "TTY_COMPATIBLE"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plan() -> Plan:
    return build_plan(
        Settings.model_validate({"family": "qwen3,minimax_m27", "engine": "gpu", "samples": 2}),
        load_families(),
        run_id="20260102-030405-abc123",
        now=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        versions={"sglang": "0.5.23"},
        built=frozenset(Lane),
    )


@pytest.fixture
def diff() -> TokenDiff:
    return TokenDiff(
        token_index=57,
        expected_id=198,
        actual_id=872,
        expected_ids=[1, 151645, 198, 3],
        actual_ids=[1, 151645, 872, 3],
        expected_text="<|im_end|>\nuser",
        actual_text="<|im_end|>user",
    )


@pytest.fixture
def make_cell(diff: TokenDiff) -> MakeCell:
    def make(
        cell: str = "qwen3/v1-openai/baseline",
        outcome: Outcome = Outcome.PASS,
        message: str = "something was seen",
        **changes: object,
    ) -> CellVerdict:
        family, lane, scenario = cell.split("/")
        rule = {
            Outcome.HARD: Rule.HARD,
            Outcome.INFRA: Rule.INFRASTRUCTURE,
            Outcome.INCOMPLETE: Rule.EVIDENCE,
            Outcome.NOT_APPLICABLE: Rule.NOT_APPLICABLE,
        }.get(outcome, Rule.VERIFICATION_ERROR)
        finding = Finding(
            check="prefix",
            type="prefix",
            severity=Severity.HARD,
            message="the newline is lost",
            turn=3,
            role="tool",
            diff=diff,
        )
        ran = outcome is not Outcome.NOT_APPLICABLE
        values: dict[str, object] = {
            "cell": cell,
            "family": family,
            "lane": lane,
            "scenario": scenario,
            "outcome": outcome,
            "failed": outcome in (Outcome.HARD, Outcome.SOFT, Outcome.VERIFIER_ERROR, Outcome.MODEL_INCOMPLETE),
            "reasons": [] if outcome is Outcome.PASS else [Reason(rule=rule, message=message)],
            "planned_samples": 2 if ran else 0,
            "completed_samples": 2 if ran else 0,
            "turns": 30 if ran else 0,
            "seconds": 65.0 if ran else 0,
            "prompt_tokens": 8111 if ran else 0,
            "completion_tokens": 822 if ran else 0,
            "artifacts": f"cells/{cell}",
            "reproduce": f"make e2e CELL={cell} SEED=1" if ran else "",
            "samples": [
                SampleVerdict(
                    index=0,
                    state=SampleState.HARD if outcome is Outcome.HARD else SampleState.CLEAN,
                    seed=1234,
                    stream=True,
                    session_id="session-0",
                    driver_events=["rollback", "append_tool"],
                    seconds=65.0,
                    findings=[finding] if outcome is Outcome.HARD else [],
                )
            ]
            if ran
            else [],
        }
        return CellVerdict.model_validate(values | changes)

    return make


@pytest.fixture
def verdict(make_cell: MakeCell) -> Verdict:
    cells = [
        make_cell("qwen3/v1-openai/baseline", passed_on_retry=True, retries={"length": 2}),
        make_cell("qwen3/v2-openai/baseline", Outcome.HARD, "1 hard mismatch in 1 of 2 samples"),
        make_cell(
            "qwen3/v2-anthropic/baseline", Outcome.INFRA, "engine: it ended", log_tail=["\x1b[31mlast\x1b[0m words\x07"]
        ),
        make_cell("minimax_m27/v1-openai/baseline", Outcome.INCOMPLETE, "there is no ledger"),
        make_cell("minimax_m27/v2-openai/baseline", Outcome.MODEL_INCOMPLETE, "1 verification error"),
        make_cell("minimax_m27/v2-anthropic/baseline", Outcome.NOT_APPLICABLE, "the family opts out"),
    ]
    return Verdict(run_id="20260102-030405-abc123", exit_code=ExitCode.VERIFICATION_FAILED, cells=cells)
