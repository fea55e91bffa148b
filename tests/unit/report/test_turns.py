"""The turns on the page: what was said in both wire formats, and nothing lost when evidence is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from runner.agents.transcript import TRANSCRIPT_ADAPTER, Transcript, TurnLog, Unseen
from runner.base.terms import WireFormat
from runner.report.chart import lease_chart, turn_bars
from runner.report.turns import Said, Session, read_session, session
from runner.verdict.model import LeaseTiming, Verdict

if TYPE_CHECKING:
    from conftest import MakeCell


def test_a_turn_shows_what_it_appended_and_what_was_replied(transcript: Transcript) -> None:
    first, second, third = session(transcript).turns
    assert first.appended == [Said("system", "Be brief."), Said("user", "Weather?")]
    assert first.reply == [Said("thinking", "\nA tool.\n"), Said("call", 'get_weather({"location": "Beijing"})')]
    assert second.appended == third.appended == [Said("tool", '{"sky": "clear"}')]
    assert second.retries == ["length (finish reason length, seed 1000001)"]
    assert [turn.off_path for turn in (first, second, third)] == [False, True, False]


def test_a_turn_tells_of_the_replies_that_were_given_up_before_it(transcript: Transcript) -> None:
    first = transcript.turns[0]
    transcript.unseen = [Unseen(first.turn, None, first.messages, recorded=recorded) for recorded in (True, False)]
    told = session(transcript).turns
    assert told[0].left == ["a reply was lost before, which had begun", "left before while it was generated"]
    assert all(turn.left == [] for turn in told[1:])


def test_blocks_of_the_anthropic_wire_are_read_as_the_same_kinds() -> None:
    turn = TurnLog(
        turn=1,
        action="text",
        parent=None,
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "content": [{"type": "text", "text": "clear"}]},
                    {"type": "tool_result", "content": "cloudy"},
                    {"type": "text", "text": "And now?"},
                    {"type": "image"},
                ],
            }
        ],
        reply={
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "tool_use", "name": "get_weather", "input": {"location": "Bonn"}},
            ],
        },
        response_id="r",
        finish_reason="tool_use",
        prompt_tokens=1,
        completion_tokens=1,
        seconds=1.0,
    )
    (shown,) = session(Transcript(wire=WireFormat.ANTHROPIC, stream=False, seed=1, turns=[turn])).turns
    assert shown.appended == [
        Said("tool", "clear"),
        Said("tool", "cloudy"),
        Said("user", "And now?"),
        Said("user", "[image]"),
    ]
    assert shown.reply == [Said("thinking", "hm"), Said("call", 'get_weather({"location":"Bonn"})')]


def test_a_session_is_read_from_the_artifacts_of_its_cell(
    transcript: Transcript, make_cell: MakeCell, tmp_path: Path
) -> None:
    cell = make_cell()
    path = tmp_path / cell.artifacts / "sessions" / "0.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(orjson.dumps({"transcript": TRANSCRIPT_ADAPTER.dump_python(transcript, mode="json")}))
    assert read_session(tmp_path, cell, cell.samples[0]) == session(transcript)


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"transcript": 3}', '{"transcript": {"turns": [{}]}}'])
def test_a_session_that_cannot_be_read_says_why_and_costs_nothing_else(
    make_cell: MakeCell, tmp_path: Path, text: str | None
) -> None:
    cell = make_cell()
    path = tmp_path / cell.artifacts / "sessions" / "0.json"
    if text is not None:
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    read = read_session(tmp_path, cell, cell.samples[0])
    assert read.turns == []
    assert read.problem


def test_the_bars_of_a_sample_follow_each_other_on_the_axis_of_its_cell(
    transcript: Transcript, make_cell: MakeCell
) -> None:
    cell = make_cell()  # from 50 s to 72.5 s; its sample took the 16 s before 70 s
    bars = turn_bars(cell, cell.samples[0], session(transcript))
    unit = 100 / 22.5
    assert [(round(bar.left, 3), round(bar.width, 3)) for bar in bars] == [
        (round(4 * unit + n * 5 * unit, 3), round(5 * unit, 3)) for n in range(3)
    ]
    assert [bar.tone for bar in bars] == ["turn", "retry", "turn"]
    (whole,) = turn_bars(cell, cell.samples[0], Session())
    assert round(whole.width, 3) == round(16 * unit, 3)


def test_the_chart_of_a_lease_has_its_steps_and_lanes_in_the_order_of_time(verdict: Verdict) -> None:
    chart = lease_chart(verdict.leases[0], verdict.cells[:2])
    assert chart is not None
    assert [(line.name, line.seconds) for line in chart.lanes] == [
        ("boot", 46),
        ("verify", 30),
        ("v1-openai", 22.5),
        ("v2-openai", 15),
        ("collect", 5),
    ]
    boot, lane = chart.lanes[0].bars[0], chart.lanes[2].bars[0]
    assert (boot.left, round(boot.width, 3)) == (0, round(100 * 46 / 82, 3))
    assert (round(lane.left, 3), round(lane.width, 3)) == (round(100 * 50 / 82, 3), round(100 * 22.5 / 82, 3))
    assert lease_chart(LeaseTiming(family="qwen3"), []) is None
