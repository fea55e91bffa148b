"""What is asked of an engine before the lanes: each capability missing and present, and whether it repeats itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from runner.agents.session import ServiceError
from runner.base.errors import IncompleteError, InfrastructureError
from runner.cli.preflight import preflight, require
from runner.lane.probe import Probe, Text, repeats
from runner.oracle.tokens import Tokens
from runner.verdict.engine import EngineFacts, Seen, engine_path, read_engine, write_engine
from tests.scripted_engine.app import build
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, planned_cell
from tests.unit.lane.test_verify import planned

TOKENS = Tokens.load(MODEL)


def probed(*kinds: Kind, engine: ScriptedEngine | None = None) -> EngineFacts:
    """The facts about a scripted engine that always has these faults."""
    scripted = engine or ScriptedEngine(MODEL, [Fault(kind, times=None) for kind in kinds])

    async def ask() -> EngineFacts:
        transport = httpx.ASGITransport(app=build(scripted))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
            return await Probe(http, TOKENS).run("qwen3")

    return asyncio.run(ask())


def test_an_engine_that_can_everything_lacks_nothing_and_is_named() -> None:
    facts = probed()
    assert facts.lacking == []
    assert [capability.name for capability in facts.capabilities if capability.needed] == [
        "token_ids",
        "logprobs",
        "input_ids",
        "scoring",
    ]
    assert facts.version == "0.0.0+scripted"
    assert facts.model == str(MODEL)
    require(facts)


@pytest.mark.parametrize(
    ("kind", "lacking"),
    [
        (Kind.NO_META_INFO, ["token_ids", "logprobs", "input_ids"]),
        (Kind.NO_TOKEN_IDS, ["token_ids", "logprobs"]),
        (Kind.LOGPROBS, ["logprobs"]),
        (Kind.COMPLETION_TOKENS, ["token_ids", "logprobs"]),
        (Kind.OWN_PROMPT, ["input_ids"]),
        (Kind.NO_SCORING, ["scoring"]),
        (Kind.STATUS, ["token_ids", "logprobs", "input_ids"]),
        (Kind.BROKEN_JSON, ["token_ids", "logprobs", "input_ids"]),
    ],
)
def test_a_capability_that_is_missing_is_named_with_the_engines_version(kind: Kind, lacking: list[str]) -> None:
    facts = probed(kind)
    assert [capability.name for capability in facts.lacking] == lacking
    assert facts.determinism is None, "an engine that cannot be driven is not asked whether it repeats itself"
    with pytest.raises(InfrastructureError, match=r"version 0\.0\.0\+scripted") as error:
        require(facts)
    for name in lacking:
        assert f"{name} (" in str(error.value)


def test_what_is_not_needed_may_be_missing() -> None:
    facts = probed()
    assert {capability.name for capability in facts.optional} == {"stream", "tokenize"}
    assert "without tokenize" in facts.described


def test_a_seed_without_effect_and_a_greedy_engine_are_told() -> None:
    found = probed().determinism
    assert found is not None
    assert (found.same_seed, found.greedy) == (Seen.NO, Seen.YES)


def test_an_engine_that_does_not_repeat_itself_at_temperature_0_is_told() -> None:
    found = probed(Kind.RESTLESS).determinism
    assert found is not None
    assert found.greedy is Seen.NO


def test_equal_texts_that_chance_may_have_made_are_no_proof_of_the_seed() -> None:
    """The scripted engine has four wordings: a seed that picks one is not told from luck."""
    found = probed(Kind.SEEDED).determinism
    assert found is not None
    assert found.same_seed is Seen.NOT_KNOWN
    assert found.other_seed_differs
    assert found.temperature == 2.0, "a higher temperature was tried as well"


@pytest.mark.parametrize(
    ("second", "other", "chance", "expected"),
    [
        ([1, 2], [1, 3], 1e-9, Seen.YES),
        ([1, 3], [1, 3], 1e-9, Seen.NO),
        ([1, 2], [1, 2], 1e-9, Seen.NOT_KNOWN),
        ([1, 2], [1, 3], 0.25, Seen.NOT_KNOWN),
    ],
    ids=["the seed decides", "the seed is ignored", "another seed gives the same", "chance may have made it"],
)
def test_a_seed_counts_as_honoured_only_where_nothing_else_explains_it(
    second: list[int], other: list[int], chance: float, expected: Seen
) -> None:
    assert repeats(Text([1, 2], chance), Text(second, chance), Text(other, chance)) is expected


def test_no_request_of_the_probe_is_taken_for_a_turn_of_a_session() -> None:
    engine = ScriptedEngine(MODEL, [Fault(Kind.TRUNCATE, turn=2, times=None)])
    probed(engine=engine)
    assert engine.faults[0].fired == 0


def test_an_engine_that_does_not_answer_is_infrastructure() -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(base_url="http://127.0.0.1:9") as http:
            await Probe(http, TOKENS).run("qwen3")

    with pytest.raises(ServiceError, match="cannot be asked"):
        asyncio.run(ask())


def _preflight(engine: ScriptedEngine, artifacts: Path, services: Sequence[str] = ("engine",)) -> list[str]:
    details: list[str] = []
    with served(build(engine)) as url:
        lease = planned([planned_cell()]).leases[0]
        urls = dict.fromkeys(services, url)
        asyncio.run(preflight(lease, artifacts, urls, lambda event: details.append(event.model_dump_json()))([]))
    return details


def test_the_facts_are_kept_and_said_before_the_lanes(tmp_path: Path) -> None:
    (event,) = _preflight(ScriptedEngine(MODEL), tmp_path)
    assert "same seed, same text: no; temperature 0, same text: yes" in event
    facts = read_engine(tmp_path, "qwen3")
    assert facts is not None
    assert facts.determinism is not None


def test_the_facts_are_kept_also_where_the_lanes_cannot_begin(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="scoring"):
        _preflight(ScriptedEngine(MODEL, [Fault(Kind.NO_SCORING, times=None)]), tmp_path)
    facts = read_engine(tmp_path, "qwen3")
    assert facts is not None
    assert [capability.name for capability in facts.lacking] == ["scoring"]


def test_without_the_engines_address_nothing_is_asked_and_nothing_claimed(tmp_path: Path) -> None:
    assert _preflight(ScriptedEngine(MODEL), tmp_path, services=()) == []
    assert read_engine(tmp_path, "qwen3") is None


def test_facts_that_were_changed_beyond_reading_are_incomplete_evidence(tmp_path: Path) -> None:
    write_engine(tmp_path, probed())
    engine_path(tmp_path, "qwen3").write_text("{}")
    with pytest.raises(IncompleteError, match=r"leases/qwen3/engine\.json"):
        read_engine(tmp_path, "qwen3")
