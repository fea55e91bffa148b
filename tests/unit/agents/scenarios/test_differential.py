"""One script driven two ways over one scripted engine: equal ways differ in nothing, what one way changes is found."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import orjson
import pytest

from runner.agents.records import SessionView, read
from runner.agents.scenarios.differential import drive
from runner.agents.scenarios.scene import Scene
from runner.agents.session import SessionClient
from runner.agents.transcript import TRANSCRIPT_ADAPTER, Transcript
from runner.agents.turns import DriveSettings
from runner.base.errors import ConfigurationError, ModelIncompleteError, VerificationError
from runner.base.events import Event
from runner.base.settings import Settings
from runner.base.terms import Lane
from runner.oracle.finding import Finding, Severity
from runner.oracle.judge import judge
from runner.oracle.measure import Measure
from runner.plan.build import build_plan
from runner.plan.families import load_families, parse_families
from runner.plan.model import PlannedCell
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.bench import MODEL, server_app
from tests.unit.plan.test_build import NOW

LANES = (Lane.V2_OPENAI, Lane.V2_ANTHROPIC)
MEASURE = Measure.load(MODEL, "qwen3")


def planned(lane: Lane) -> PlannedCell:
    settings = Settings.model_validate({"cell": f"qwen3/{lane}/differential"})
    return build_plan(settings, load_families(), run_id="run", now=NOW, versions={}).cells[0]


class Pair:
    """Both session servers over one engine, and what was driven there."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self.engine = ScriptedEngine(MODEL, faults)
        self.clients = {f"session-{version}": self._client(version) for version in ("v1", "v2")}
        self.events: list[Event] = []

    def _client(self, version: str) -> SessionClient:
        app: Any = server_app(version, engine=self.engine)
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://session")
        return SessionClient(http, f"session-{version}")

    def drive(self, lane: Lane, *, stream: bool = False, without: str = "") -> tuple[dict[str, Any], Transcript]:
        """Snapshot and transcript of one sample. `without` takes a server away."""
        transcript = Transcript(lane.wire, stream, 7)

        async def run() -> bytes:
            client = self.clients[lane.service]
            transcript.session_id = await client.create()
            cell = planned(lane)
            scene = Scene(
                client=client,
                health=await client.health(),
                settings=DriveSettings.of(cell, cell.samples[0].model_copy(update={"stream": stream}), "scripted"),
                transcript=transcript,
                emit=self.events.append,
                on_attempt=lambda attempt: None,
                peers={name: peer for name, peer in self.clients.items() if name != without},
            )
            await drive(scene)
            return await client.get(transcript.session_id)

        return orjson.loads(asyncio.run(run())), transcript

    async def sessions(self, service: str) -> int:
        """How many are open."""
        return int(orjson.loads((await self.clients[service]._exchange("GET", "/health")).content)["sessions"])


def judged(
    lane: Lane,
    driven: tuple[dict[str, Any], Transcript],
    alter: Callable[[dict[str, Any]], object] | None = None,
    alter_other: Callable[[dict[str, Any]], object] | None = None,
) -> list[Finding]:
    """The findings of the comparison, after a round through the form in which evidence is kept."""
    snapshot, transcript = copy.deepcopy(driven)
    body = TRANSCRIPT_ADAPTER.dump_python(transcript, mode="json")
    if alter is not None:
        alter(snapshot)
    if alter_other is not None:
        alter_other(body["counterpart"]["snapshot"])
    kept = TRANSCRIPT_ADAPTER.validate_json(orjson.dumps(body))
    view = read(SessionView, orjson.dumps(snapshot), "records", "snapshot")
    return [finding for finding in judge(view, kept, planned(lane), MEASURE) if finding.check == "differential"]


@pytest.fixture(scope="module", params=[*LANES, "stream"])
def clean(request: pytest.FixtureRequest) -> tuple[Lane, tuple[dict[str, Any], Transcript]]:
    lane = request.param if isinstance(request.param, Lane) else Lane.V2_ANTHROPIC
    return lane, Pair().drive(lane, stream=request.param == "stream")


def test_two_ways_of_one_script_differ_in_nothing(clean: tuple[Lane, tuple[dict[str, Any], Transcript]]) -> None:
    lane, driven = clean
    assert judged(lane, driven) == []
    _, transcript = driven
    assert transcript.driver_events == ["compared"]
    assert [turn.action for turn in transcript.path] == ["forced_tool", "text", "forced_tool", "rollback", "text"]
    assert len(transcript.turns) == 6
    assert transcript.counterpart is not None
    assert len(transcript.counterpart.transcript.turns) == 6


def test_the_whole_cell_is_clean_but_for_what_the_grammar_writes(
    clean: tuple[Lane, tuple[dict[str, Any], Transcript]],
) -> None:
    lane, (snapshot, transcript) = clean
    view = read(SessionView, orjson.dumps(snapshot), "records", "snapshot")
    found = judge(view, transcript, planned(lane), MEASURE)
    assert {finding.severity for finding in found} <= {Severity.SOFT, Severity.NOTE}


def sampled(snapshot: dict[str, Any], index: int) -> list[list[Any]]:
    found: list[list[Any]] = snapshot["records"][index]["response"]["choices"][0]["meta_info"]["output_token_logprobs"]
    return found


@pytest.mark.parametrize(
    ("alter", "expected"),
    [
        (lambda s: s["records"][1]["request"]["input_ids"].pop(5), {("re_templated", 2, "hard")}),
        (lambda s: s["records"][2]["request"]["messages"][4].update(content="x"), {("message", 3, "hard")}),
        (lambda s: s["records"][4]["request"]["messages"][2].pop("tool_calls"), {("message", 6, "hard")}),
        (lambda s: sampled(s, 3)[4].__setitem__(1, 9), {("output", 5, "hard")}),
        (lambda s: s["records"].pop(), {("records", None, "hard")}),
    ],
    ids=["prompt", "message", "call lost", "sampled token", "record lost"],
)  # fmt: skip
@pytest.mark.parametrize("side", ["own", "other"])
def test_what_either_way_changes_is_found_at_its_turn(
    clean: tuple[Lane, tuple[dict[str, Any], Transcript]],
    side: str,
    alter: Callable[[dict[str, Any]], object],
    expected: set[tuple[str, int | None, str]],
) -> None:
    lane, driven = clean
    found = judged(lane, driven, alter) if side == "own" else judged(lane, driven, alter_other=alter)
    assert {(finding.type, finding.turn, finding.severity.value) for finding in found} == expected


def test_without_the_other_snapshot_nothing_is_taken_for_equal(
    clean: tuple[Lane, tuple[dict[str, Any], Transcript]],
) -> None:
    lane, (snapshot, transcript) = clean
    broken = copy.deepcopy(transcript)
    assert broken.counterpart is not None
    broken.counterpart.snapshot = None
    assert [finding.type for finding in judged(lane, (snapshot, broken))] == ["absent"]
    broken.counterpart.snapshot = {"session_id": "x"}
    with pytest.raises(VerificationError, match="the snapshot of the session of v"):
        judged(lane, (snapshot, broken))


def test_an_engine_that_does_not_repeat_itself_at_temperature_0_is_seen() -> None:
    found = judged(Lane.V2_OPENAI, Pair([Fault(Kind.RESTLESS, times=None)]).drive(Lane.V2_OPENAI))
    assert ("output", 1, "hard") in [(finding.type, finding.turn, finding.severity.value) for finding in found]


@pytest.mark.parametrize("lane", LANES)
def test_the_session_of_the_other_way_is_closed(lane: Lane) -> None:
    pair = Pair()
    pair.drive(lane)
    left = {service: asyncio.run(pair.sessions(service)) for service in pair.clients}
    assert left == {**dict.fromkeys(pair.clients, 0), lane.service: 1}, "the sample's own session is not the script's"
    assert pair.events, "the sample's turns are told"
    assert len(pair.events) == 6, "the reference's are not"


def test_what_breaks_off_leaves_both_sides_of_the_story_and_no_session() -> None:
    pair = Pair([Fault(Kind.EMPTY, turn=2, times=None)])
    transcript = Transcript(Lane.V2_OPENAI.wire, False, 7)
    with pytest.raises(ModelIncompleteError):
        pair.drive(Lane.V2_OPENAI)
    assert asyncio.run(pair.sessions("session-v1")) == 0
    assert transcript.counterpart is None


def test_a_lane_whose_reference_is_not_there_is_no_lane_to_compare() -> None:
    with pytest.raises(ConfigurationError, match="session-v1, is not among the servers"):
        Pair().drive(Lane.V2_OPENAI, without="session-v1")


def test_the_reference_itself_and_a_lane_without_its_reference_are_planned_with_their_reason() -> None:
    def reasons(**more: object) -> list[str]:
        settings = Settings.model_validate({"family": "qwen3", "scenarios": "differential", **more})
        plan = build_plan(settings, load_families(), run_id="run", now=NOW, versions={})
        return [cell.reason for cell in plan.cells]

    assert reasons() == ["it is the reference that the other lanes are compared with", "", ""]
    only = reasons(session_v2_url="http://s:1", tokenizer=str(MODEL))
    assert only[1] == "SESSION_V1_URL is not set, and differential compares this lane with v1-openai"
    assert only[2] == ""


def test_what_may_differ_is_a_known_kind_or_refused() -> None:
    text = (MODEL.parents[3] / "runner" / "plan" / "families.toml").read_text()
    marked = text.replace('tito_model = "qwen3"', 'tito_model = "qwen3"\nmay_differ = ["call_ids", "mood"]', 1)
    (problem,) = parse_families(marked, where="x").problems
    assert "may_differ = 'mood'; allowed: a list out of call_ids, tool_schema" in problem
    good = parse_families(marked.replace(', "mood"', ""), where="x")
    assert good.problems == []
    settings = Settings.model_validate({"cell": "qwen3/v2-openai/differential"})
    (cell,) = build_plan(settings, good.families, run_id="run", now=NOW, versions={}).cells
    assert [kind.value for kind in cell.may_differ] == ["call_ids"]
