"""`Conversation` on the OpenAI wire: chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson
from pydantic import JsonValue

from runner.agents.openai import MAX_RETRIES, RETRY_SEED_STRIDE
from runner.agents.records import JsonObject, Reply
from runner.agents.reply import checked_message, unfinished
from runner.agents.scenarios.conversation import NO_CALL, STAGE, UNEXPECTED_CALL, Call, Choice, Conversation, Tool
from runner.base.errors import VerificationError

_CHOICES: Final[dict[Choice, str]] = {Choice.AUTO: "auto", Choice.TEXT: "none"}


class ChatConversation(Conversation):
    """One session over chat completions."""

    retries = MAX_RETRIES
    path = "v1/chat/completions"

    def results(self, results: Sequence[tuple[str, JsonValue]]) -> None:
        """One tool message for each result."""
        self.history += [
            {"role": "tool", "tool_call_id": identity, "content": content} for identity, content in results
        ]

    def authored(self, text: str, calls: Sequence[Call]) -> None:
        """An assistant message with text and calls."""
        written: list[JsonValue] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": orjson.dumps(call.arguments).decode()},
            }
            for call in calls
        ]
        self.history.append({"role": "assistant", "content": text, "tool_calls": written})

    def calls_of(self, message: JsonObject) -> list[Call]:
        """The calls in `tool_calls`, which `checked` has looked at."""
        calls = message.get("tool_calls")
        return [_call(call) for call in calls] if isinstance(calls, list) else []

    def tool(self, tool: Tool) -> JsonObject:
        """As a function."""
        function: JsonObject = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        if tool.strict is not None:
            function["strict"] = tool.strict
        return {"type": "function", "function": function}

    def body(self, history: Sequence[JsonObject], choice: Choice, retry: int, max_tokens: int | None) -> JsonObject:
        """A chat completion request with all of the history."""
        settings, tools = self.scene.settings, list[JsonValue](self.tools)
        forced: JsonObject = {"type": "function", "function": {"name": _name(self.tools[0])}}
        body: JsonObject = {
            "model": settings.model,
            "messages": list(history),
            "tools": tools,
            "tool_choice": _CHOICES.get(choice, forced),
            "temperature": settings.temperature,
            "max_tokens": max_tokens or settings.max_tokens,
            "seed": self.seed(retry),
            "stream": settings.stream,
        }
        if settings.stream:
            body["stream_options"] = {"include_usage": True}
        return body

    async def ask(self, body: JsonObject) -> Reply:
        """One chat completion."""
        return await self.scene.client.complete(self.scene.session, body, self.scene.settings.turn_timeout)

    def seed(self, retry: int) -> int:
        """The sample's seed, further on with every retry."""
        return self.scene.settings.seed + retry * RETRY_SEED_STRIDE

    def rejects(self, reply: Reply, choice: Choice) -> str | None:
        """`length`, `abort`, `empty`, or a call where none may be, or no single call where one must be."""
        cause = unfinished(reply)
        if cause is not None:
            return cause
        calls = reply.message.get("tool_calls")
        count = len(calls) if isinstance(calls, list) else 0
        if choice is Choice.CALL and count != 1:
            return NO_CALL
        return UNEXPECTED_CALL if choice is Choice.TEXT and count else None

    def checked(self, reply: Reply) -> JsonObject:
        """See `runner.agents.reply`."""
        return checked_message(reply)


def _name(tool: JsonObject) -> JsonValue:
    function = tool["function"]
    return function["name"] if isinstance(function, dict) else None


def _call(call: JsonValue) -> Call:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise VerificationError(STAGE, f"a tool call is not an object with a function: {call!r}")
    arguments = function.get("arguments")
    try:
        value: JsonValue = orjson.loads(arguments if isinstance(arguments, str) else b"")
    except orjson.JSONDecodeError as error:
        raise VerificationError(STAGE, f"the arguments of a tool call are no JSON ({error}): {arguments!r}") from error
    return Call(str(call.get("id")), str(function.get("name")), value)
