"""One run that has a cell of every kind, for reports to show."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from runner.agents.records import JsonObject
from runner.agents.transcript import Rejected, Transcript, TurnLog
from runner.base.settings import Settings, variables
from runner.base.terms import ExitCode, Lane, Outcome, WireFormat
from runner.ledger.records import Finding, Severity, TokenDiff
from runner.plan.build import build_plan
from runner.plan.families import load_families
from runner.plan.model import Plan
from runner.verdict.model import (
    CellVerdict,
    LaneTiming,
    LeaseTiming,
    Phase,
    Reason,
    Rule,
    SampleState,
    SampleVerdict,
    Span,
    Verdict,
)

TAIL = "\x1b[31mlast\x1b[0m words\x07"
BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
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
            "wall": span(50, 72.5) if ran else None,
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
                    seconds=16.0,
                    ended_at=BEGUN + timedelta(seconds=70),
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
        make_cell(
            "qwen3/v1-openai/baseline",
            passed_on_retry=True,
            retries={"length": 2},
            retried=[f"sample 1 turn 4: retry {number} after length" for number in (1, 2)],
            notes=["the session could not be closed"],
        ),
        make_cell("qwen3/v2-openai/baseline", Outcome.HARD, "1 hard mismatch in 1 of 2 samples"),
        make_cell(
            "qwen3/v2-anthropic/baseline", Outcome.INFRA, "engine: it ended", log_tail=["\x1b[31mlast\x1b[0m words\x07"]
        ),
        make_cell("minimax_m27/v1-openai/baseline", Outcome.INCOMPLETE, "there is no ledger"),
        make_cell("minimax_m27/v2-openai/baseline", Outcome.MODEL_INCOMPLETE, "1 verification error"),
        make_cell("minimax_m27/v2-anthropic/baseline", Outcome.NOT_APPLICABLE, "the family opts out"),
    ]
    lanes = [
        LaneTiming(lane=Lane.V1_OPENAI, wall=span(50, 72.5), sample_seconds=65),
        LaneTiming(lane=Lane.V2_OPENAI, wall=span(65, 80), sample_seconds=65),
    ]
    steps = {"starting": 0, "up": 46, "verified": 76, "collecting": 76, "removing": 81}
    lease = LeaseTiming(
        family="qwen3",
        wall=span(0, 82),
        boot_seconds=46,
        verify_seconds=30,
        collect_seconds=5,
        remove_seconds=1,
        together=span(50, 80),
        lanes=lanes,
        phases=[Phase(phase=name, at=BEGUN + timedelta(seconds=seconds)) for name, seconds in steps.items()],
    )
    return Verdict(run_id="20260102-030405-abc123", exit_code=ExitCode.VERIFICATION_FAILED, cells=cells, leases=[lease])


@pytest.fixture
def transcript() -> Transcript:
    """Three turns over the OpenAI wire; the second was retried and then rolled back."""
    call: JsonObject = {"type": "function", "function": {"name": "get_weather", "arguments": '{"location": "Beijing"}'}}
    asked: list[JsonObject] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
    called: JsonObject = {"role": "assistant", "content": "", "reasoning_content": "\nA tool.\n", "tool_calls": [call]}
    answered: list[JsonObject] = [*asked, called, {"role": "tool", "content": '{"sky": "clear"}'}]

    def turn(number: int, action: str, parent: int | None, messages: list[JsonObject], **more: Any) -> TurnLog:
        values = {
            "reply": {"role": "assistant", "content": f"Clear <b>skies</b> {number}."},
            "response_id": f"r{number}",
            "finish_reason": "stop",
            "prompt_tokens": 1000 + number,
            "completion_tokens": 30,
            "seconds": 5.0,
        }
        return TurnLog(turn=number, action=action, parent=parent, messages=messages, **(values | more))

    rejected = Rejected("length", "length", 1_000_001, "x", {})
    return Transcript(
        wire=WireFormat.OPENAI,
        stream=True,
        seed=1,
        session_id="session-0",
        turns=[
            turn(1, "start", None, asked, reply=called, finish_reason="tool_calls"),
            turn(2, "tool_result", 1, answered, rejected=[rejected]),
            turn(3, "rollback", 1, answered),
        ],
    )


def span(begin: float, end: float) -> Span:
    """Seconds after the start of the run."""
    return Span(
        started_at=BEGUN + timedelta(seconds=begin), ended_at=BEGUN + timedelta(seconds=end), seconds=end - begin
    )
