"""Content as lists of text parts (`list-content`): the same words must give the same prompt as a plain text.

System prompt, question and tool result come in several parts. A template that takes only text shows nothing of a list,
and a server that compares the two in the same blind way sees no difference; the oracle renders the joined text.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from runner.agents import script
from runner.agents.scenarios.conversation import Choice
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse

MARK: Final = "\x1f"


def parts(text: str, *cuts: str) -> JsonValue:
    """The text as a list, cut before each of `cuts`."""
    for cut in cuts:
        text = text.replace(cut, MARK + cut, 1)
    return [{"type": "text", "text": part} for part in text.split(MARK)]


async def drive(scene: Scene) -> None:
    """Two rounds of a forced call and a text turn; the second has single parts."""
    talk = converse(scene, system=parts(script.SYSTEM, "Answer one", "Summarise"))
    rounds = (
        (parts(script.USER_FIRST, "in Beijing"), parts(script.TOOL_RESULTS[0], '"condition"', '"humidity"')),
        (parts(script.USER_FOLLOWUPS[0]), parts(script.TOOL_RESULTS[1])),
    )
    for question, result in rounds:
        talk.user(question)
        scene.note("list_user")
        call = talk.calls_of(await talk.turn(Choice.CALL))[0]
        talk.results([(call.id, result)])
        scene.note("list_result")
        await talk.turn(Choice.TEXT)
