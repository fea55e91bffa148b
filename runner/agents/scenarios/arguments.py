"""Arguments that are hard to keep (`arguments`): several lines, quotes, other scripts, and the end-of-thinking tag.

The tool takes one value only, so the engine's grammar samples exactly these characters. Written again from the parsed
call they would come out in other tokens; the stored ids must be used instead, and id, name and arguments must survive.
"""

from __future__ import annotations

from typing import Final

from runner.agents import script
from runner.agents.scenarios.conversation import Choice, Tool
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.base.errors import VerificationError

LOCATION: Final = 'the "old"\n\tquarter \\ 北京 – naïve café 🌦 </think> of Beijing'
"""One value with all of it. The tag is text here; a reader that takes it for more than text breaks the turn. A city
stands at the end, so that a small model is back on known ground when it has to close the call."""

TOOL: Final = Tool(
    script.TOOL_NAME,
    script.TOOL_DESCRIPTION,
    {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "City name", "enum": [LOCATION]}},
        "required": ["location"],
        "additionalProperties": False,
    },
    strict=True,
)


async def drive(scene: Scene) -> None:
    """Two rounds of a forced call and a text turn, so that the call is replayed three times."""
    talk = converse(scene, [TOOL])
    for question, result in ((script.USER_FIRST, 0), (script.USER_FOLLOWUPS[0], 1)):
        talk.user(question)
        call = talk.calls_of(await talk.turn(Choice.CALL))[0]
        if call.arguments != {"location": LOCATION}:
            raise VerificationError(
                "arguments", f"the grammar allows only {LOCATION!r} as location, the reply has {call.arguments!r}"
            )
        scene.note("hard_arguments")
        talk.results([(call.id, script.TOOL_RESULTS[result])])
        await talk.turn(Choice.TEXT)
