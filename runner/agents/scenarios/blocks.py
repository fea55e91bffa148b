"""`Conversation` on the Anthropic wire: messages of content blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from runner.agents.anthropic import MAX_RETRIES, MAX_TOKENS, TEMPERATURE_LIMIT, rejects_call, rejects_text
from runner.agents.messages import blocks_of
from runner.agents.records import JsonObject, Reply
from runner.agents.scenarios.conversation import Call, Choice, Conversation, Tool

_CHOICES: Final[dict[Choice, str]] = {Choice.AUTO: "auto", Choice.TEXT: "none"}


class BlockConversation(Conversation):
    """One session over the Messages wire."""

    retries = MAX_RETRIES
    path = "v1/messages"

    def results(self, results: Sequence[tuple[str, JsonValue]]) -> None:
        """One user message with a block for each result."""
        blocks: list[JsonValue] = [
            {"type": "tool_result", "tool_use_id": identity, "content": content} for identity, content in results
        ]
        self.history.append({"role": "user", "content": blocks})

    def authored(self, text: str, calls: Sequence[Call]) -> None:
        """An assistant message with a text block, where there is text, and a block for each call."""
        blocks: list[JsonValue] = [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in calls]
        self.history.append({"role": "assistant", "content": blocks})

    def calls_of(self, message: JsonObject) -> list[Call]:
        """The `tool_use` blocks."""
        return [
            Call(str(block["id"]), str(block["name"]), block.get("input")) for block in blocks_of(message, "tool_use")
        ]

    def tool(self, tool: Tool) -> JsonObject:
        """With an `input_schema`. This wire has no word for `strict: false`, so it is left unsaid."""
        return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}

    def body(self, history: Sequence[JsonObject], choice: Choice, retry: int, max_tokens: int | None) -> JsonObject:
        """A Messages request with all of the history."""
        settings, tools = self.scene.settings, list[JsonValue](self.tools)
        forced: JsonObject = {"type": "tool", "name": self.tools[0]["name"]}
        return {
            "model": settings.model,
            "max_tokens": max_tokens or min(settings.max_tokens, MAX_TOKENS),
            "system": history[0]["content"],
            "messages": list(history[1:]),
            "tools": tools,
            "tool_choice": {"type": _CHOICES[choice]} if choice in _CHOICES else forced,
            "temperature": min(settings.temperature, TEMPERATURE_LIMIT),
            "stream": settings.stream,
        }

    async def ask(self, body: JsonObject) -> Reply:
        """One turn."""
        return await self.scene.client.message(self.scene.session, body, self.scene.settings.turn_timeout)

    def seed(self, retry: int) -> int | None:
        """This wire has none."""
        return None

    def rejects(self, reply: Reply, choice: Choice) -> str | None:
        """What the Anthropic agent asks for again; an open turn is taken as it is, unless it was cut or is empty."""
        if choice is Choice.AUTO:
            return None if rejects_call(reply) is None else rejects_text(reply)
        return rejects_call(reply) if choice is Choice.CALL else rejects_text(reply)

    def checked(self, reply: Reply) -> JsonObject:
        """The message as it came."""
        return reply.message
