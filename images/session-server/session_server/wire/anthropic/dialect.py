"""The dialect of messages: bodies to chat requests, whole or as what is appended to the last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from session_server.core.errors import InvalidError, refuse_depth
from session_server.core.turn import Message
from session_server.wire.anthropic.convert import to_chat, to_messages
from session_server.wire.anthropic.policy import refuse_messages, refuse_unserved
from session_server.wire.anthropic.request import parse_elements, parse_messages
from session_server.wire.openai import ChatRequest, check_chat, checked_messages, parse_object


class Anthropic:
    """`inline_system`: whether the template shows a system message in the middle; else it changes the leading one."""

    history_fields: Sequence[str] = ("system",)

    def __init__(self, *, inline_system: bool) -> None:
        self._inline_system = inline_system

    def parse(self, raw: bytes) -> ChatRequest:
        """The chat request that a body makes.

        Raises:
            InvalidError: it is not JSON, a field is wrong, or it asks for what is not served.
        """
        return self._chat(parse_object(raw))

    def parse_count(self, raw: bytes) -> ChatRequest:
        """As `parse`, for a body that need not say how long the answer may be."""
        return self._chat(parse_object(raw), counting=True)

    def check(self, fields: dict[str, Any]) -> ChatRequest:
        """As `parse`, of everything but the messages.

        Raises:
            InvalidError: a field is wrong, or asks for what is not served.
        """
        return self._chat({**fields, "messages": [{"role": "user", "content": ""}]})

    def appended(self, elements: list[Any]) -> list[Message]:
        """What further messages are in the chat.

        Raises:
            InvalidError: one is wrong or not served, or changes the leading system message.
        """
        messages = parse_elements(elements)
        refuse_messages(messages)
        if not self._inline_system and any(message.role == "system" for message in messages):
            raise InvalidError("a system message changes the leading one")
        with refuse_depth():
            chat = [made for message in messages for made in to_messages(message, inline_system=self._inline_system)]
        return checked_messages(chat)

    def _chat(self, body: dict[str, Any], *, counting: bool = False) -> ChatRequest:
        checked = parse_messages(body, counting=counting)
        refuse_unserved(checked)
        with refuse_depth():
            return check_chat(to_chat(checked, inline_system=self._inline_system))
