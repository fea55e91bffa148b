"""A line of the system prompt that changes while the conversation goes on (`volatile-system`), as clocks do.

Every token behind that line is another one then, so nothing may be reused. A tree begins a new root, and the
conversation that went on under the old line is still there when it comes back; both are looked at in the end. A line of
turns cannot keep both: with more than one turn to give up it refuses, and stays as it was.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from runner.agents import script
from runner.agents.scenarios.conversation import Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.base.errors import VerificationError
from runner.base.terms import ServerVersion, WireFormat

TIMES: Final = ("Current time: 10:01.", "Current time: 10:02.")
REFUSAL: Final = "rollback failed"


def system(scene: Scene, time: str) -> JsonValue:
    """The system prompt with this line at its end; a block of its own where the wire has blocks."""
    if scene.transcript.wire is WireFormat.ANTHROPIC:
        return [{"type": "text", "text": script.SYSTEM}, {"type": "text", "text": time}]
    return f"{script.SYSTEM}\n{time}"


async def drive(scene: Scene) -> None:
    """A question and its answer under one line, then the change; on v2 both conversations go on in turns."""
    talk = converse(scene, system=system(scene, TIMES[0]))
    talk.user(script.USER_FIRST)
    await _call_and_answer(talk, 0)
    old = list(talk.history)
    talk.user(script.USER_FOLLOWUPS[0])
    _set_system(talk, TIMES[1])
    if scene.settings.cell.lane.server is ServerVersion.V1:
        await _refused(talk)
        _set_system(talk, TIMES[0])
        await _call_and_answer(talk, 1)
        return
    await _call_and_answer(talk, 1)
    scene.note("new_root")
    new, talk.history = talk.history, old
    talk.user(script.USER_FOLLOWUPS[1])
    await talk.turn(Choice.CALL)
    scene.note("old_root")
    talk.history = new
    talk.user(script.USER_FOLLOWUPS[2])
    await _call_and_answer(talk, 2)
    scene.transcript.forest = await scene.client.forest(scene.session)


async def _call_and_answer(talk: Conversation, number: int) -> None:
    call = talk.calls_of(await talk.turn(Choice.CALL))[0]
    talk.results([(call.id, script.TOOL_RESULTS[number])])
    await talk.turn(Choice.TEXT)


def _set_system(talk: Conversation, time: str) -> None:
    talk.history = [{"role": "system", "content": system(talk.scene, time)}, *talk.history[1:]]


async def _refused(talk: Conversation) -> None:
    """The changed line gives up two turns: 400, and the session is byte for byte what it was."""
    scene = talk.scene
    before = await scene.client.get(scene.session)
    await talk.refused(400, REFUSAL, Choice.CALL)
    after = await scene.client.get(scene.session)
    if before != after:
        raise VerificationError("refusal", f"the refused request changed the session: {len(before)} bytes before it")
    scene.note("refused")
