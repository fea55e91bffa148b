"""The shape of a Messages request.

Blocks that this server does not serve are part of the shape, so that `policy` can refuse them by name; a block of an
unknown type is a fault of the request. `cache_control`, `metadata` and other fields without effect are ignored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from session_server.core.errors import InvalidError
from session_server.wire.openai import Many
from session_server.wire.problems import explain


class _Block(BaseModel):
    model_config = ConfigDict(extra="ignore")


class TextBlock(_Block):
    """Text."""

    type: Literal["text"]
    text: str


class ThinkingBlock(_Block):
    """Reasoning of an earlier turn; its signature is not looked at."""

    type: Literal["thinking"]
    thinking: str


class ToolUseBlock(_Block):
    """A call that the assistant made."""

    type: Literal["tool_use"]
    id: str = Field(min_length=1)
    name: str = Field(min_length=1)
    input: dict[str, Any]


class RefusedBlock(_Block):
    """A block of a known type that is never served."""

    type: Literal["image", "document", "redacted_thinking", "tool_reference", "search_result"]


def _tag(value: object) -> str | None:
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if kind in ("text", "thinking", "tool_use", "tool_result") else "refused"


def _known_type(value: object) -> object:
    """Name an unknown block type before the variants are tried."""
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(value, dict) and not (isinstance(kind, str) and kind in _KNOWN):
        raise PydanticCustomError("block_type", "unknown content block type {kind}", {"kind": repr(kind)})
    return value


class ToolResultBlock(_Block):
    """What a tool answered."""

    type: Literal["tool_result"]
    tool_use_id: str = Field(min_length=1)
    content: str | Many[InnerBlock] | None = None
    is_error: bool | None = None


_KNOWN = frozenset(
    {
        "text",
        "thinking",
        "tool_use",
        "tool_result",
        "image",
        "document",
        "redacted_thinking",
        "tool_reference",
        "search_result",
    }
)

InnerBlock: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")] | Annotated[RefusedBlock, Tag("refused")],
    Discriminator(lambda value: "text" if _tag(value) == "text" else "refused"),
    BeforeValidator(_known_type),
]
Block: TypeAlias = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")]
    | Annotated[ToolResultBlock, Tag("tool_result")]
    | Annotated[RefusedBlock, Tag("refused")],
    Discriminator(_tag),
    BeforeValidator(_known_type),
]
ToolResultBlock.model_rebuild()


class InputMessage(_Block):
    """One message; content is text or blocks."""

    role: Literal["user", "assistant", "system"]
    content: str | Many[Block]


class InputTool(_Block):
    """A tool of the client's own, or one of the families that only Anthropic runs."""

    type: str | None = None
    name: str = Field(min_length=1)
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoice(_Block):
    """Whether and which tool must be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class MessagesBody(BaseModel):
    """A Messages request."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(min_length=1)
    messages: Many[InputMessage] = Field(min_length=1)
    max_tokens: int = Field(gt=0, strict=True)
    system: str | Many[Block] | None = None
    stop_sequences: Many[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    tools: Many[InputTool] | None = None
    tool_choice: ToolChoice | None = None
    stream: bool | None = None
    thinking: Any = None
    output_config: Any = None
    betas: Many[str] | None = None


class CountBody(MessagesBody):
    """A token count request: a Messages request that need not say how long the answer may be."""

    max_tokens: int = 1


def parse_messages(body: dict[str, Any], *, counting: bool = False) -> MessagesBody:
    """Check the shape of a request.

    Raises:
        InvalidError: naming the first few fields that are wrong.
    """
    try:
        return (CountBody if counting else MessagesBody).model_validate(body)
    except ValidationError as error:
        raise InvalidError(explain(error.errors(include_url=False))) from error


_MESSAGES = TypeAdapter(Many[InputMessage])


def parse_elements(elements: list[Any]) -> list[InputMessage]:
    """Check the shape of elements of `messages`.

    Raises:
        InvalidError: naming the first few fields that are wrong.
    """
    try:
        return _MESSAGES.validate_python(elements)
    except ValidationError as error:
        raise InvalidError(explain(error.errors(include_url=False))) from error
