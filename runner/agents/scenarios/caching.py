"""`cache_control` marks that move with every turn (`cache-control`), as the SDKs of the Anthropic wire set them.

The marks say where a cache may end; they are no part of what was said. The system prompt keeps its mark, the last
user message has one as long as it is the last. A server that compares them takes each turn for a new conversation.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

from runner.agents import script
from runner.agents.records import JsonObject
from runner.agents.scenarios.conversation import Choice, Conversation, unmarked
from runner.agents.scenarios.scene import Scene
from runner.agents.scenarios.wires import converse

MARK: Final[JsonObject] = {"type": "ephemeral"}


async def drive(scene: Scene) -> None:
    """Two rounds of a forced call and a text turn, the mark always on the last block."""
    talk = converse(scene, system=[_marked(script.SYSTEM)])
    for number, question in enumerate((script.USER_FIRST, script.USER_FOLLOWUPS[0])):
        talk.user([{"type": "text", "text": question}])
        _move_mark(talk)
        call = talk.calls_of(await talk.turn(Choice.CALL))[0]
        talk.results([(call.id, script.TOOL_RESULTS[number])])
        _move_mark(talk)
        await talk.turn(Choice.TEXT)


def _marked(text: str) -> JsonObject:
    return {"type": "text", "text": text, "cache_control": MARK}


def _move_mark(talk: Conversation) -> None:
    """The last block of the last message carries the mark, no other message but the system prompt does."""
    system, *said = talk.history
    plain = [message for message in (unmarked(message) for message in said) if isinstance(message, dict)]
    content = plain[-1]["content"]
    blocks: list[JsonValue] = list(content) if isinstance(content, list) else []
    last = blocks[-1]
    if not isinstance(last, dict):
        raise ValueError("a mark needs a block to stand on")
    blocks[-1] = {**last, "cache_control": MARK}
    talk.history = [system, *plain[:-1], {**plain[-1], "content": blocks}]
    talk.scene.note("cache_mark")
