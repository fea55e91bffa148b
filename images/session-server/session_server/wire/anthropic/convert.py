"""A Messages request as a chat request.

The order of things is kept: text before a tool result stays before it. What templates render is kept too: thinking
becomes reasoning, a tool's description comes before its name, a turn of tool calls alone has no content.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from session_server.core.errors import InvalidError
from session_server.wire.anthropic.request import (
    Block,
    InputMessage,
    InputTool,
    MessagesBody,
    TextBlock,
    ThinkingBlock,
    ToolChoice,
    ToolResultBlock,
    ToolUseBlock,
)


def to_chat(body: MessagesBody, *, inline_system: bool) -> dict[str, Any]:
    """The body of the chat request.

    `inline_system`: a system message in the middle stays in place; otherwise all are folded into the leading one,
    which changes the prefix and so opens a new line of conversation.

    Raises:
        InvalidError: the tool choice names a tool that is not there.
    """
    chat: dict[str, Any] = {"model": body.model, "messages": _messages(body, inline_system)}
    chat["max_tokens"] = body.max_tokens
    optional = {
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": body.top_k,
        "stop": body.stop_sequences,
    }
    chat.update({key: value for key, value in optional.items() if value is not None})
    if body.tools:
        chat["tools"] = [_tool(tool) for tool in body.tools]
    if body.tool_choice is not None or body.tools:
        chat["tool_choice"] = _tool_choice(body.tool_choice, body.tools or ())
    if body.tool_choice is not None and body.tool_choice.disable_parallel_tool_use:
        chat["parallel_tool_calls"] = False
    if body.stream:
        chat["stream"] = True
    return chat


def _messages(body: MessagesBody, inline_system: bool) -> list[dict[str, Any]]:
    system = [_text(body.system)] if body.system is not None else []
    if not inline_system:
        system += [_text(message.content) for message in body.messages if message.role == "system"]
    system = [text for text in system if text.strip()]
    messages: list[dict[str, Any]] = [{"role": "system", "content": "\n".join(system)}] if system else []
    for message in body.messages:
        messages += to_messages(message, inline_system=inline_system)
    if not messages:
        raise InvalidError("messages: at least one message with content is required")
    return messages


def to_messages(message: InputMessage, *, inline_system: bool) -> list[dict[str, Any]]:
    """What a message is in the chat; none for a system message that is folded into the leading one."""
    if message.role == "system":
        return [{"role": "system", "content": _text(message.content)}] if inline_system else []
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    if message.role == "assistant":
        return [_assistant(message.content)]
    return _user(message)


def _text(content: str | Sequence[Block]) -> str:
    """System text: blocks are joined by newlines, empty ones add none."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock) and block.text)


def _parts(texts: Sequence[str]) -> str | list[dict[str, str]]:
    """One text as a string, several as parts."""
    if len(texts) == 1:
        return texts[0]
    return [{"type": "text", "text": text} for text in texts]


def _assistant(blocks: Sequence[Block]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    thinking = [block.thinking for block in blocks if isinstance(block, ThinkingBlock) and block.thinking]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {"name": block.name, "arguments": json.dumps(block.input, ensure_ascii=False)},
        }
        for block in blocks
        if isinstance(block, ToolUseBlock)
    ]
    if thinking:
        message["reasoning_content"] = "\n".join(thinking)
    if texts:
        message["content"] = _parts(texts)
    elif not calls:
        message["content"] = ""
    if calls:
        message["tool_calls"] = calls
    return message


def _user(message: InputMessage) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    texts: list[str] = []

    def flush() -> None:
        if texts:
            messages.append({"role": "user", "content": _parts(texts)})
            texts.clear()

    for block in message.content:
        if isinstance(block, TextBlock):
            texts.append(block.text)
        elif isinstance(block, ToolResultBlock):
            flush()
            messages.append({"role": "tool", "tool_call_id": block.tool_use_id, "content": _result(block)})
    flush()
    return messages


def _result(block: ToolResultBlock) -> str | list[dict[str, str]]:
    if block.content is None:
        return ""
    if isinstance(block.content, str):
        return block.content
    texts = [inner.text for inner in block.content if isinstance(inner, TextBlock) and inner.text]
    return _parts(texts) if texts else ""


def _tool(tool: InputTool) -> dict[str, Any]:
    schema = dict(tool.input_schema or {})
    schema.setdefault("type", "object")
    function: dict[str, Any] = {"description": tool.description or "", "name": tool.name, "parameters": schema}
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice | None, tools: Sequence[InputTool]) -> str | dict[str, Any]:
    if choice is None:
        return "auto"
    if choice.type == "none" or (choice.type == "auto" and not tools):
        return "none"
    if not tools:
        raise InvalidError(f"tool_choice {choice.type!r} needs at least one tool")
    if choice.type == "auto":
        return "auto"
    if choice.type == "any":
        return "required"
    if choice.name is None or all(tool.name != choice.name for tool in tools):
        raise InvalidError(f"tool_choice names {choice.name!r}, which is not one of the tools")
    return {"type": "function", "function": {"name": choice.name}}
