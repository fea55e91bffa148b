"""A forced call under a growing budget of tokens (`max-tokens`).

A reply that fills its budget was cut and must say so, however much of a call can be read out of it: a half call that is
reported as finished is trained on as if the model had written it so. And nothing may follow it: extending a cut reply
is refused, and the refusal leaves the session as it was.
"""

from __future__ import annotations

from typing import Final

from runner.agents import script
from runner.agents.records import JsonObject
from runner.agents.scenarios.asking import CUT, answer_call, budgeted, digest
from runner.agents.scenarios.conversation import Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.base.errors import VerificationError

BUDGETS: Final = (16, 20, 24, 28, 32, 36, 40, 64, 128, 200)
"""Tokens; close to each other where a small model writes its call."""
REFUSED: Final = 409


async def drive(scene: Scene) -> None:
    """One turn for each budget, all with the same history; then the call with the cell's budget, and its answer."""
    talk = converse(scene)
    talk.user(script.USER_FIRST)
    for budget in BUDGETS:
        reply = await budgeted(talk, Choice.CALL, budget)
        if scene.transcript.turns[-1].finish_reason in CUT:
            scene.note("cut")
            await _not_extended(talk, reply)
    answer_call(talk, await talk.turn(Choice.CALL), script.TOOL_RESULTS[0])
    scene.note("whole")
    await talk.turn(Choice.TEXT)


async def _not_extended(talk: Conversation, reply: JsonObject) -> None:
    """What follows a cut reply is refused, and changes nothing."""
    before = await digest(talk.scene)
    talk.history += [reply]
    talk.user(script.USER_FOLLOWUPS[0])
    try:
        await talk.refused(REFUSED, "truncated", Choice.CALL)
    finally:
        del talk.history[-2:]
    if await digest(talk.scene) != before:
        number = len(talk.scene.transcript.turns)
        raise VerificationError("refusal", f"the refused extension of turn {number} changed the session")
    talk.scene.note("refused")
