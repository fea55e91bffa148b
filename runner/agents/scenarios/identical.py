"""Equal requests, one after the other (`identical`).

A client that asks the same thing again wants another sample. Each of them is a generation of its own: on a line it
takes the place of the one before, in a tree it stands beside it, and none of them is an answer from memory.
"""

from __future__ import annotations

from typing import Final

from runner.agents import script
from runner.agents.scenarios.asking import answer_call, looked_up
from runner.agents.scenarios.conversation import Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse

REPEATS: Final = 3
"""Equal requests at one place."""


async def drive(scene: Scene) -> None:
    """The first turn three times, then the answer to its call three times, then one turn more."""
    talk = converse(scene)
    talk.user(script.USER_FIRST)
    await _repeatedly(talk, Choice.CALL)
    answer_call(talk, talk.history[-1], script.TOOL_RESULTS[0])
    await _repeatedly(talk, Choice.TEXT)
    talk.user(script.USER_FOLLOWUPS[0])
    await talk.turn(Choice.CALL)


async def _repeatedly(talk: Conversation, choice: Choice) -> None:
    """The same body each time, seed included: a turn that is taken back and asked for again."""
    for number in range(REPEATS):
        if number:
            talk.drop_reply()
        await talk.turn(choice)
        await looked_up(talk)
        if number:
            talk.scene.note("repeated")
