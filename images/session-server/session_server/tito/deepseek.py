"""DeepSeek V3.2 and V4: encoders in place of chat templates, made append-only.

The published encoders are written for one prompt at a time. V3.2's text of a message depends on whether a user message
follows, so there every message is encoded as the last of its prefix, and text once printed stays. An assistant message
that does not follow a user or tool message opens itself, as the generation prompt does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from session_server.core.turn import Message
from session_server.tito.arguments import parse_arguments
from session_server.tito.jinja import RenderError
from session_server.tito.package import DeepSeekEncoder

_OPENER = "<｜Assistant｜>"
_MODES = ("thinking", "chat")


class DeepSeekRenderer:
    """Messages to text with one version's encoder."""

    def __init__(self, encoder: DeepSeekEncoder) -> None:
        self._encoder = encoder

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        kwargs: Mapping[str, Any],
    ) -> str:
        """Text of the conversation.

        Raises:
            RenderError: the encoder refuses the messages or an argument is unknown to it.
        """
        mode, options = self._options(kwargs)
        try:
            prepared = self._encoder.prepare(_with_tools([_with_text_arguments(m) for m in messages], tools))
            return self._text(prepared, mode, options, add_generation_prompt=add_generation_prompt)
        except self._encoder.errors as error:
            raise RenderError(f"the encoder refused the messages: {error}") from error

    def _options(self, kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        mode = "thinking"
        options: dict[str, Any] = {}
        for key, value in kwargs.items():
            if key == "drop_thinking":
                continue
            if key in ("enable_thinking", "thinking"):
                mode = "thinking" if value else "chat"
            elif key == "thinking_mode" and value in _MODES:
                mode = value
            elif key in self._encoder.options:
                options[key] = value
            else:
                raise RenderError(f"chat template argument {key}={value!r} is not known to the DeepSeek encoder")
        return mode, options

    def _text(
        self, messages: Sequence[Message], mode: str, options: Mapping[str, Any], *, add_generation_prompt: bool
    ) -> str:
        opener = _OPENER + ("<think>" if mode == "thinking" else "</think>")
        text = self._encoder.start
        previous = ""
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and previous not in ("user", "tool"):
                text += opener
            text += self._encoder.message(index, messages, mode, options)
            previous = message["role"]
        if add_generation_prompt and previous not in ("user", "tool"):
            text += opener
        return text


def _with_text_arguments(message: Message) -> Message:
    """Content as text and arguments as JSON text; the message itself where nothing changes."""
    calls = message.get("tool_calls")
    if not calls:
        return message if message.get("content") is not None else {**message, "content": ""}
    written = []
    for call in calls:
        function = call["function"]
        arguments = json.dumps(parse_arguments(function.get("arguments")), ensure_ascii=False)
        written.append({**call, "function": {**function, "arguments": arguments}})
    return {**message, "content": message.get("content") or "", "tool_calls": written}


def _with_tools(messages: list[Message], tools: Sequence[Mapping[str, Any]] | None) -> list[Message]:
    """Tools go into the system message, where the encoders print them as they are."""
    if not tools:
        return messages
    if not messages or messages[0]["role"] != "system":
        messages = [{"role": "system", "content": ""}, *messages]
    return [{**messages[0], "tools": list(tools)}, *messages[1:]]
