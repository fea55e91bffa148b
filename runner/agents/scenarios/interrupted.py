"""Streams that the client closes in their middle, and a session that is closed under a running turn
(`interrupted-stream`).

Whoever hangs up usually comes back. The session must answer then, and hold what its records say. And a session can be
closed while a turn of it is generated: at once, without waiting for the turn, whose half-made reply must not come out
as a finished one.
"""

from __future__ import annotations

import asyncio
from typing import Final

from runner.agents import script
from runner.agents.pending import Pending
from runner.agents.scenarios.asking import again, answer_call, leave_waiting, lose_reply
from runner.agents.scenarios.conversation import Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.agents.session import Refused
from runner.base.errors import VerificationError

TRIES: Final = 3
"""Sessions that are closed under a turn, until one was closed before its turn was done."""
AT_ONCE_SECONDS: Final = 10.0
"""Bound for closing a session. Closing waits for nothing; the rest is room for a machine under load."""
NOT_FOUND: Final = 404


async def drive(scene: Scene) -> None:
    """Closed behind the first bytes and before the first byte, each asked again; then a session closed under a turn."""
    talk = converse(scene)
    talk.user(script.USER_FIRST)
    await lose_reply(talk, Choice.CALL, stream=True, into_body=True)
    scene.note("interrupted")
    answer_call(talk, await again(talk, Choice.CALL), script.TOOL_RESULTS[0])
    await leave_waiting(talk, Choice.TEXT, stream=True)
    scene.note("left_waiting")
    await again(talk, Choice.TEXT)
    await _closed_under_a_turn(scene)
    talk.user(script.USER_FOLLOWUPS[0])
    await talk.turn(Choice.CALL)


async def _closed_under_a_turn(scene: Scene) -> None:
    """Close a session of its own while a turn is generated. Where the turn was done first, another one is tried.

    Raises VerificationError when closing waits, or when every turn comes out as if nothing had happened.
    """
    for _ in range(TRIES):
        if await _cut(scene):
            scene.note("deleted_in_flight")
            return
    raise VerificationError(
        "delete",
        f"{TRIES} of {TRIES} turns were answered 200 although their sessions were deleted while they were generated: "
        f"DELETE waits for the turn, or the turn is answered and recorded nowhere",
    )


async def _cut(scene: Scene) -> bool:
    """True when the turn was cut off by closing its session, False when it was answered 200."""
    client, seconds = scene.client, scene.settings.turn_timeout
    talk: Conversation = converse(scene)
    talk.user(script.USER_FIRST)
    body = talk.body(talk.history, Choice.CALL, 0, None)
    session_id = await client.create()
    pending = await Pending.begin(client, session_id, talk.path, body, seconds)
    try:
        async with asyncio.timeout(AT_ONCE_SECONDS):
            await client.delete(session_id)
        answer = await pending.answer()
    except TimeoutError as error:
        raise VerificationError(
            "delete", f"DELETE was not answered within {AT_ONCE_SECONDS:g} s while a turn was generated"
        ) from error
    finally:
        await pending.close()
    if isinstance(answer, Refused) and answer.status != NOT_FOUND:
        raise VerificationError(
            "delete", f"a turn whose session was deleted was answered {answer.status}, expected 404: {answer.text}"
        )
    after = await client.offer(session_id, talk.path, body, seconds)
    if not isinstance(after, Refused) or after.status != NOT_FOUND:
        told = f"{after.status}: {after.text}" if isinstance(after, Refused) else f"200 with reply {after.id!r}"
        raise VerificationError("delete", f"a turn of a deleted session was answered {told}, expected 404")
    return isinstance(answer, Refused)
