"""Replies that are lost on their way to the client (`reply-lost`).

The server has recorded a generation that the client never saw. The client sends the shorter history again, as it must:
on a line that is a rollback of one step, in a tree another branch, and in both a new generation.
"""

from __future__ import annotations

from runner.agents import script
from runner.agents.scenarios.asking import again, answer_call, leave_waiting, lose_reply
from runner.agents.scenarios.conversation import Choice
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse


async def drive(scene: Scene) -> None:
    """Lost when the reply had begun: the first turn, and a later one in the other wire mode; then one that was left
    while it was generated."""
    stream = scene.settings.stream
    talk = converse(scene)
    talk.user(script.USER_FIRST)
    await lose_reply(talk, Choice.CALL, stream=stream, into_body=False)
    scene.note("reply_lost")
    answer_call(talk, await again(talk, Choice.CALL), script.TOOL_RESULTS[0])
    await lose_reply(talk, Choice.TEXT, stream=not stream, into_body=False)
    scene.note("reply_lost")
    await again(talk, Choice.TEXT)
    talk.user(script.USER_FOLLOWUPS[0])
    await leave_waiting(talk, Choice.CALL, stream=stream)
    scene.note("left_waiting")
    answer_call(talk, await again(talk, Choice.CALL), script.TOOL_RESULTS[1])
    await talk.turn(Choice.TEXT)
