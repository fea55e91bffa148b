"""What of the Messages API this server does not serve, refused by name before anything happens."""

from __future__ import annotations

import re
from collections.abc import Iterable

from session_server.core.errors import InvalidError
from session_server.wire.anthropic.request import (
    Block,
    InnerBlock,
    InputMessage,
    InputTool,
    MessagesBody,
    RefusedBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

_SERVER_TOOL = re.compile(r"(web_search|computer|bash|text_editor)_")


def refuse_unserved(body: MessagesBody) -> None:
    """Refuse what cannot be mapped onto a chat request, in a fixed order.

    Raises:
        InvalidError: naming the first such thing.
    """
    for field in ("thinking", "output_config"):
        if field in body.model_fields_set and getattr(body, field) is not None:
            raise InvalidError(f"{field} is not supported by this endpoint")
    if body.betas:
        raise InvalidError("betas is not enabled for this deployment")
    for tool in body.tools or ():
        _refuse_tool(tool)
    if isinstance(body.system, list):
        _refuse_blocks(body.system, role="system")
    refuse_messages(body.messages)


def refuse_messages(messages: Iterable[InputMessage]) -> None:
    """Refuse blocks that cannot be mapped, or not where they stand.

    Raises:
        InvalidError: naming the first such block.
    """
    for message in messages:
        if isinstance(message.content, list):
            _refuse_blocks(message.content, role=message.role)


def _refuse_tool(tool: InputTool) -> None:
    if tool.type in (None, "custom"):
        if tool.input_schema is None:
            raise InvalidError(f"tool {tool.name!r} has no input_schema")
        return
    if _SERVER_TOOL.match(tool.type or ""):
        raise InvalidError(f"{tool.type} tools are not enabled for this deployment")
    raise InvalidError(f"tools of type {tool.type!r} are not supported by this endpoint")


def _refuse_blocks(blocks: Iterable[Block | InnerBlock], *, role: str) -> None:
    for block in blocks:
        if isinstance(block, RefusedBlock):
            raise InvalidError(f"{block.type} content blocks are not enabled for this deployment")
        if isinstance(block, ThinkingBlock) and role != "assistant":
            raise InvalidError("thinking content blocks are only supported in assistant messages")
        if isinstance(block, ToolUseBlock) and role != "assistant":
            raise InvalidError("tool_use content blocks are only supported in assistant messages")
        if isinstance(block, ToolResultBlock):
            if role != "user":
                raise InvalidError("tool_result content blocks are only supported in user messages")
            if block.is_error:
                raise InvalidError("tool_result is_error=true is not supported by this endpoint")
            if isinstance(block.content, list):
                _refuse_blocks(block.content, role="tool_result")
