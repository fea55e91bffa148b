"""Two tool calls in one assistant turn, answered by two results in a row (`parallel-tools`).

The template writes neighbouring results into one turn; rendered one by one they would get an end and a new beginning
between them. Two turns are authored by the client: at the start, where the whole conversation is rendered, and behind a
sampled turn, where only the tail is. Where the family's syntax of calls is known, a third one is sampled: the engine is
held to a pattern of two calls, and the tail is nothing but the two results. That needs a word for patterns, which only
the OpenAI wire has.
"""

from __future__ import annotations

import re
from typing import Final

from runner.agents import script
from runner.agents.scenarios.conversation import Call, Choice, Conversation
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse
from runner.base.errors import VerificationError
from runner.base.terms import WireFormat

QUESTION: Final = "What's the weather in {} and in {}?"
PAIRS: Final = (("Beijing", "Shanghai"), ("Tokyo", "Paris"), ("London", "Beijing"))

_JSON_CALL: Final = '<tool_call>\n{{"name": "{}", "arguments": {{"location": "{}"}}}}\n</tool_call>'
CALL_SYNTAX: Final = {"qwen25": _JSON_CALL}
"""Tool-call parser -> how its model writes a call, name and place to be filled in. What is not here is not sampled."""


async def drive(scene: Scene) -> None:
    """Four turns on the OpenAI wire where two calls can be sampled, else two."""
    talk = converse(scene)
    for number, pair in enumerate(PAIRS[:2]):
        talk.user(QUESTION.format(*pair))
        calls = [Call(f"call_{number}_{at}", script.TOOL_NAME, {"location": city}) for at, city in enumerate(pair)]
        talk.authored("", calls)
        _answer(talk, calls)
        scene.note("parallel_authored")
        await talk.turn(Choice.TEXT)
    syntax = CALL_SYNTAX.get(scene.settings.tool_call_parser)
    if scene.transcript.wire is WireFormat.ANTHROPIC or syntax is None:
        return
    talk.user(QUESTION.format(*PAIRS[2]))
    message = await talk.turn(Choice.AUTO, extra={"regex": pattern(syntax, PAIRS[2])})
    sampled = talk.calls_of(message)
    if [call.arguments for call in sampled] != [{"location": city} for city in PAIRS[2]]:
        raise VerificationError("parallel", f"the engine was held to calls for {PAIRS[2]}, the reply has {sampled}")
    scene.note("parallel_sampled")
    _answer(talk, sampled)
    await talk.turn(Choice.TEXT)


def pattern(syntax: str, cities: tuple[str, str]) -> str:
    """What the engine is held to once its thinking is over: one call for each city, spaced as the template does."""
    written = "\n".join(syntax.format(script.TOOL_NAME, city) for city in cities)
    return re.escape(f"\n\n{written}").replace("\\\n", "\\n").replace('\\"', '"').replace("\\ ", " ")


def _answer(talk: Conversation, calls: list[Call]) -> None:
    talk.results([(call.id, script.TOOL_RESULTS[at % 4]) for at, call in enumerate(calls)])
    talk.scene.note("parallel_results")
