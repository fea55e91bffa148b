"""Opens the conversation of a scene on the wire of its lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from runner.agents import script
from runner.agents.scenarios.blocks import BlockConversation
from runner.agents.scenarios.chat import ChatConversation
from runner.agents.scenarios.conversation import WEATHER, Conversation, Tool
from runner.agents.scenarios.scene import Scene
from runner.base.terms import WireFormat

_KINDS: Final[dict[WireFormat, type[Conversation]]] = {
    WireFormat.OPENAI: ChatConversation,
    WireFormat.ANTHROPIC: BlockConversation,
}


def converse(scene: Scene, tools: Sequence[Tool] = (WEATHER,), system: JsonValue = script.SYSTEM) -> Conversation:
    """A conversation in which nothing has been said but the system prompt."""
    return _KINDS[scene.transcript.wire](scene, tools, system)
