"""What goes wrong in time, as whole cells: each scenario clean in every lane, and with the fault that it is there for.

The session server is ours, on a real socket, in front of a scripted engine that takes a moment for each turn; faults
are put into it or around it. The outcome is the gate's, and judging the artifacts again must give the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import runner.agents.scenarios.interrupted as interrupted
from runner.base.terms import Lane, Outcome
from runner.cli.replay import replayed
from runner.plan.model import PlannedCell
from runner.report.write import write_files, write_plan
from runner.verdict.artifacts import load_run
from runner.verdict.model import CellVerdict
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, server_app
from tests.unit.agents.scenarios.stage import planned as planned_cell
from tests.unit.lane import faulty
from tests.unit.lane.test_verify import planned, run

import session_server.app.service as service  # isort: skip
import session_server.core.linear as linear  # isort: skip
import session_server.core.tree as tree  # isort: skip
from session_server.core.session import Session  # isort: skip
from session_server.core.turn import Turn  # isort: skip

TIMING = ("max-tokens", "concurrent", "reply-lost", "identical", "interrupted-stream")
GENERATION_SECONDS = 0.15
"""What the scripted engine takes for a turn, so that others can come meanwhile."""
V1, V2, MESSAGES = Lane.V1_OPENAI, Lane.V2_OPENAI, Lane.V2_ANTHROPIC


def unspoilt(app: faulty.App) -> faulty.App:
    return app


@contextmanager
def servers(spoil: faulty.Fault = unspoilt, seconds: float = GENERATION_SECONDS) -> Iterator[dict[str, str]]:
    """A slow engine and both session servers, each wrapped by `spoil`."""
    delay = [Fault(Kind.DELAY, times=None, value=seconds)] if seconds else []
    with ExitStack() as stack:
        engine_url = stack.enter_context(served(build_engine(ScriptedEngine(MODEL, delay))))
        yield {
            f"session-{version}": stack.enter_context(served(spoil(server_app(version, engine_url))))  # type: ignore[arg-type]
            for version in ("v1", "v2")
        }


def verified(cells: list[PlannedCell], urls: dict[str, str], artifacts: Path) -> dict[str, CellVerdict]:
    """Drive the cells, make the verdict, and make it once more from the artifacts alone."""
    plan = planned(cells)
    run(plan, urls, artifacts)
    write_plan(artifacts, plan)
    _, verdict = load_run(artifacts)
    write_files(plan, verdict, artifacts)
    _, once_more = replayed(artifacts)
    assert once_more == verdict, "judged again, the run has the identical verdict"
    return {cell.cell: cell for cell in verdict.cells}


@dataclass(frozen=True)
class Judged:
    """What became of one cell: its outcome, the first reason, the types of its hard findings."""

    outcome: Outcome
    message: str
    types: set[str]


def judged(
    scenario: str,
    artifacts: Path,
    *lanes: Lane,
    spoil: faulty.Fault = unspoilt,
    seconds: float = GENERATION_SECONDS,
    turn_timeout: float = 30.0,
) -> list[Judged]:
    """The scenario in these lanes, or in all of them."""
    cells = [
        planned_cell(scenario, lane).model_copy(update={"turn_timeout": turn_timeout}) for lane in lanes or tuple(Lane)
    ]
    with servers(spoil, seconds) as urls:
        verdicts = verified(cells, urls, artifacts)
    found = []
    for cell in cells:
        verdict = verdicts[str(cell.id)]
        types = {f"{f.check}:{f.type}" for s in verdict.samples for f in s.findings if f.severity == "hard"}
        found.append(Judged(verdict.outcome, verdict.reasons[0].message if verdict.reasons else "", types))
    return found


def test_every_scenario_is_clean_in_every_lane(tmp_path: Path) -> None:
    cells = [planned_cell(scenario, lane) for scenario in TIMING for lane in Lane]
    with servers() as urls:
        verdicts = verified(cells, urls, tmp_path)
    assert {name: cell.reasons for name, cell in verdicts.items() if cell.outcome is not Outcome.PASS} == {}
    assert len(verdicts) == 15
    for cell in verdicts.values():
        assert [f for s in cell.samples for f in s.findings if f.severity == "hard"] == []


def test_without_a_moment_for_each_turn_replies_are_lost_all_the_same(tmp_path: Path) -> None:
    """An engine that answers at once wins the race against the client's going; the reply must be recorded then."""
    assert [cell.outcome for cell in judged("reply-lost", tmp_path, seconds=0)] == [Outcome.PASS] * 3


def without_recording(commit: Callable[[Any, Turn], None], lost: Callable[[Any, Turn], bool]) -> Any:
    """A commit that forgets the turns that `lost` picks."""

    def spoilt(self: Any, turn: Turn) -> None:
        if not lost(self, turn):
            commit(self, turn)

    return spoilt


def test_a_line_that_answers_a_turn_which_it_does_not_record_is_hard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two overlapping turns are both answered with 200, and the one that comes in last is dropped."""
    monkeypatch.setattr(Session, "turn", taking(Session.turn, one_at_a_time=False))
    moved_on = without_recording(linear.Line.commit, lambda line, turn: line.tip is not turn.parent)
    monkeypatch.setattr(linear.Line, "commit", moved_on)
    (cell,) = judged("concurrent", tmp_path, V1)
    assert cell.outcome is Outcome.HARD
    assert "kept:unrecorded" in cell.types


def test_a_tree_that_loses_a_sibling_is_hard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = without_recording(tree.Tree.commit, lambda forest, turn: len(forest.children(turn.parent)) == 1)
    monkeypatch.setattr(tree.Tree, "commit", second)
    for cell in judged("concurrent", tmp_path, V2, MESSAGES):
        assert cell.outcome is Outcome.HARD
        assert "tree:lost_node" in cell.types


def test_a_tree_that_refuses_turns_at_the_same_time_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "turn", taking(Session.turn, one_at_a_time=True))
    for cell in judged("concurrent", tmp_path, V2, MESSAGES):
        assert cell.outcome is Outcome.VERIFIER_ERROR
        assert "one of 4 turns at the same time was answered 409, expected 200" in cell.message


def taking(enter: Callable[[Any, Any], Any], *, one_at_a_time: bool) -> Any:
    """Sessions that take one turn at a time, or any number, whatever their version."""

    def spoilt(self: Any, withdraw: Any) -> Any:
        self._exclusive = one_at_a_time
        return enter(self, withdraw)

    return spoilt


@pytest.mark.parametrize("scenario", ["identical", "reply-lost"])
def test_an_answer_from_memory_is_hard(scenario: str, tmp_path: Path) -> None:
    for cell in judged(scenario, tmp_path, spoil=faulty.remembering):
        assert cell.outcome is Outcome.HARD
        assert "kept:repeated" in cell.types


def test_a_cut_reply_that_the_client_is_told_is_finished_is_hard(tmp_path: Path) -> None:
    for cell in judged("max-tokens", tmp_path, spoil=faulty.finished_when_cut, seconds=0):
        assert cell.outcome is Outcome.HARD
        assert {"kept:budget", "kept:finish_reason"} <= cell.types


def test_a_cut_reply_that_is_recorded_as_finished_is_hard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine says that a cut call is finished, and the server believes it."""
    checked = service.read_generation

    def believing(raw: bytes, **options: Any) -> Any:
        made = checked(raw, **options)
        if made.finish_reason != "length":
            return made
        made.body["choices"][0]["finish_reason"] = "tool_calls"
        text = raw.replace(b'"finish_reason":"length"', b'"finish_reason":"tool_calls"')
        return replace(made, raw=text, finish_reason="tool_calls")

    monkeypatch.setattr(service, "read_generation", believing)
    for cell in judged("max-tokens", tmp_path, seconds=0):
        assert cell.outcome is Outcome.HARD
        assert "kept:budget" in cell.types
        assert "kept:finish_reason" not in cell.types


def test_a_cut_turn_that_can_be_extended_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for core in (linear, tree):
        monkeypatch.setattr(core, "refuse_truncated", lambda parent: None)
    for cell in judged("max-tokens", tmp_path, seconds=0):
        assert cell.outcome is Outcome.VERIFIER_ERROR
        assert "answered 200, expected a refusal" in cell.message


def test_a_refusal_that_takes_the_last_turn_away_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    position = linear.Line.position

    def forgetful(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return position(self, *arguments, **options)
        except linear.ConflictError:
            self._tip = self._tip.parent
            raise

    monkeypatch.setattr(linear.Line, "position", forgetful)
    (cell,) = judged("max-tokens", tmp_path, V1, seconds=0)
    assert cell.outcome is Outcome.VERIFIER_ERROR
    assert "the refused extension of turn 1 changed the session" in cell.message


@pytest.mark.parametrize("scenario", ["reply-lost", "interrupted-stream"])
def test_a_session_that_is_dead_after_a_lost_reply_fails(scenario: str, tmp_path: Path) -> None:
    for cell in judged(scenario, tmp_path, spoil=faulty.dead_after_hang_up, seconds=0):
        assert cell.outcome is Outcome.VERIFIER_ERROR
        assert "answered 400, expected 200" in cell.message
        assert "rollback failed" in cell.message


def test_a_reply_that_was_begun_and_never_recorded_is_hard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spoilt: list[Any] = []

    def first(state: Any, _: Turn) -> bool:
        new = all(state is not other for other in spoilt)
        spoilt.append(state)
        return new

    for core in (linear.Line, tree.Tree):
        monkeypatch.setattr(core, "commit", without_recording(core.commit, first))
    for cell in judged("reply-lost", tmp_path, seconds=0):
        assert cell.outcome is Outcome.HARD
        assert "kept:unrecorded" in cell.types
        assert "no record of that reply is there" in cell.message


def test_a_session_that_stays_busy_after_its_client_has_gone_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Session.__init__

    def holding(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **options)
        self._withdraw = Held()

    monkeypatch.setattr(Session, "__init__", holding)
    (cell,) = judged("interrupted-stream", tmp_path, V1, turn_timeout=1.5)
    assert cell.outcome is Outcome.VERIFIER_ERROR
    assert "answered 409, expected 200" in cell.message
    assert "session busy" in cell.message


class Held(dict[int, Any]):
    """The places of turns: that of a turn that was withdrawn is never given back."""

    def __delitem__(self, key: int) -> None:
        """A turn that ended by itself goes."""
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            super().__delitem__(key)


def test_a_delete_that_waits_for_the_turn_fails(tmp_path: Path) -> None:
    for cell in judged("interrupted-stream", tmp_path, spoil=faulty.patient):
        assert cell.outcome is Outcome.VERIFIER_ERROR
        assert "3 of 3 turns were answered 200 although their sessions were deleted" in cell.message


def test_a_half_made_reply_that_is_given_out_as_finished_fails(tmp_path: Path) -> None:
    (cell,) = judged("interrupted-stream", tmp_path, V2, spoil=faulty.half_replies)
    assert cell.outcome is Outcome.VERIFIER_ERROR
    assert "the turn is answered and recorded nowhere" in cell.message


def test_a_delete_that_is_not_answered_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted, "AT_ONCE_SECONDS", 0.3)
    (cell,) = judged("interrupted-stream", tmp_path, V2, spoil=faulty.endless_delete, seconds=1.0)
    assert cell.outcome is Outcome.VERIFIER_ERROR
    assert "DELETE was not answered within 0.3 s" in cell.message
