"""One script driven two ways beside each other, at temperature 0 (`differential`).

The lane's own way is the sample; the other way is its reference: v1 for v2 on the OpenAI wire, the OpenAI wire for the
Anthropic one. Both say the same, one request at a time and turn by turn, so that an engine that answers equal prompts
equally is asked equal prompts. The reference is kept in the transcript with its own snapshot; the oracle compares.

Every turn is forced or free of calls: what a model may decide by itself is no difference between two ways. The tool
says nothing about strictness and has its keys in the order in which SGLang's Anthropic conversion writes them: the one
form that both wires can bring into a prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import orjson

from runner.agents import script
from runner.agents.records import JsonObject
from runner.agents.scenarios.conversation import WEATHER, Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.agents.session import SessionClient
from runner.agents.transcript import Counterpart, Transcript
from runner.base.errors import ConfigurationError, RunnerError
from runner.base.events import Event
from runner.base.terms import WireFormat
from runner.plan.scenarios import SCENARIOS

NAME: Final = "differential"
TOOL: Final = replace(WEATHER, strict=None)
CLOSE_SECONDS: Final = 3.0


async def drive(scene: Scene) -> None:
    """Six turns on either way, one of them asked for twice.

    Raises ConfigurationError where the reference cannot be reached.
    """
    lane = scene.settings.cell.lane
    reference = SCENARIOS[NAME].beside.get(lane)
    client = scene.peers.get(reference.service) if reference is not None else None
    if reference is None or client is None:
        where = reference.service if reference is not None else "no lane"
        raise ConfigurationError([f"{scene.settings.cell}: its reference, {where}, is not among the servers"])
    other = Transcript(wire=reference.wire, stream=scene.transcript.stream, seed=scene.transcript.seed)
    scene.transcript.counterpart = Counterpart(lane=reference, transcript=other)
    other.session_id = await client.create()
    try:
        beside = replace(scene, client=client, transcript=other, emit=_unseen)
        await _talk([_converse(beside), _converse(scene)])
    except BaseException:
        await _give_up(client, scene.transcript.counterpart)
        raise
    scene.transcript.counterpart.snapshot = orjson.loads(await client.get(other.session_id))
    await client.delete(other.session_id)
    scene.note("compared")


def _converse(scene: Scene) -> Conversation:
    way = converse(scene, [TOOL])
    if scene.transcript.wire is WireFormat.OPENAI:
        way.tools[:] = [_reordered(tool) for tool in way.tools]
    return way


def _reordered(tool: JsonObject) -> JsonObject:
    function = tool["function"]
    if not isinstance(function, dict):
        raise TypeError(f"a tool of the OpenAI wire is a function: {tool!r}")
    return {**tool, "function": {key: function[key] for key in ("description", "name", "parameters")}}


async def _talk(ways: Sequence[Conversation]) -> None:
    for question, result in zip((script.USER_FIRST, script.USER_FOLLOWUPS[0]), script.TOOL_RESULTS, strict=False):
        for way in ways:
            way.user(question)
        calls = [await way.turn(Choice.CALL) for way in ways]
        for way, message in zip(ways, calls, strict=True):
            way.results([(call.id, result) for call in way.calls_of(message)])
        await _text(ways)
    for way in ways:
        way.drop_reply()
    await _text(ways, "rollback")
    for way in ways:
        way.user(script.FORCE_FINAL)
    await _text(ways)


async def _text(ways: Sequence[Conversation], action: str | None = None) -> None:
    for way in ways:
        await way.turn(Choice.TEXT, action=action)


async def _give_up(client: SessionClient, counterpart: Counterpart) -> None:
    """Keep what the reference's server has, and close the session there; what is on its way is raised afterwards."""
    identity = counterpart.transcript.session_id
    with suppress(RunnerError, TimeoutError, orjson.JSONDecodeError):
        async with asyncio.timeout(CLOSE_SECONDS):
            counterpart.snapshot = orjson.loads(await client.get(identity))
    with suppress(RunnerError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.delete(identity)


def _unseen(event: Event) -> None:
    """The reference is no sample: its turns are not counted as turns of the cell."""
