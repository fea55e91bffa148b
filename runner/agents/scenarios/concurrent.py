"""Several turns of one session at the same time (`concurrent`).

Every reply that was given with 200 must be recorded. A tree keeps them all, side by side. A line can keep one: it
refuses the others before they reach the engine, or takes one after the other, each in the place of the one before; so
the reply that was given last is the one that must be there, and the conversation goes on from it.
"""

from __future__ import annotations

from typing import Final

from runner.agents import script
from runner.agents.records import JsonObject, Reply
from runner.agents.scenarios.asking import BUSY, Answered, add, answer_call, looked_up, together
from runner.agents.scenarios.conversation import Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.agents.session import Refused
from runner.base.errors import ModelIncompleteError, VerificationError
from runner.base.terms import ServerVersion

COUNT: Final = 4
"""Turns at the same time."""
ROUNDS: Final = 3
"""Rounds at one place, where a busy machine has sent one turn only after another was answered."""


async def drive(scene: Scene) -> None:
    """The first turn four times at once, its answer, a follow-up four times at once, its answer."""
    talk = converse(scene)
    for question, result in zip((script.USER_FIRST, script.USER_FOLLOWUPS[0]), script.TOOL_RESULTS, strict=False):
        talk.user(question)
        answer_call(talk, await _overlapping(talk), result)
        await talk.turn(Choice.TEXT)


async def _overlapping(talk: Conversation) -> JsonObject:
    """Rounds until one has overlapped; the message of the last, which is in the history then."""
    for _ in range(ROUNDS):
        message, overlapped = await _round(talk)
        if overlapped:
            talk.scene.note("overlap")
            break
    talk.history.append(message)
    return message


async def _round(talk: Conversation) -> tuple[JsonObject, bool]:
    """The same turn several times at once: the message to go on with, and whether turns did meet at the server."""
    line = talk.scene.settings.cell.lane.server is ServerVersion.V1
    answers = await together(talk, Choice.CALL, COUNT)
    for answered in answers:
        _expected(answered, line)
    given = [answered for answered in answers if isinstance(answered.answer, Reply)]
    if not given:
        raise VerificationError("turn", f"all of {COUNT} turns at the same time were refused, one is to be taken")
    good = [answered for answered in given if _rejected(talk, answered) is None]
    # on a line only the last one can be there
    if not good or (line and good[-1] is not given[-1]):
        raise ModelIncompleteError("reply", f"no reply to go on from: {[_rejected(talk, one) for one in given]}")
    messages = {id(answered): add(talk, Choice.CALL, answered) for answered in given}
    if line:
        await looked_up(talk)
    # one that was refused has met another; else all must have been sent before the first was answered
    met = len(given) < COUNT or max(one.sent for one in answers) < min(one.done for one in answers)
    return messages[id(good[-1])], met


def _rejected(talk: Conversation, answered: Answered) -> str | None:
    return talk.rejects(answered.answer, Choice.CALL) if isinstance(answered.answer, Reply) else None


def _expected(answered: Answered, line: bool) -> None:
    """Raises VerificationError for a refusal that is not due: a tree takes every turn, a line says that it is busy."""
    answer = answered.answer
    if isinstance(answer, Refused) and not (line and answer.status == BUSY):
        due = f"200 or {BUSY}" if line else "200"
        raise VerificationError(
            "turn", f"one of {COUNT} turns at the same time was answered {answer.status}, expected {due}: {answer.text}"
        )
