"""The OpenAI chat request: what is checked, what is rendered, what is sent on.

The client's body goes to the engine as it is, less streaming, plus the token ids and what is needed to get the sampled
ids back. For rendering and matching a message is reduced to text: parts of a list-form content are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from session_server.core.errors import InvalidError
from session_server.core.tokens import Snapshot, TokenIds
from session_server.core.turn import EngineRequest, Message, Turn
from session_server.tito.arguments import NotAnObjectError, parse_arguments
from session_server.wire.problems import explain

Item = TypeVar("Item")
Many: TypeAlias = Annotated[list[Item], Field(fail_fast=True)]
"""A list whose first wrong element is named: to name all takes minutes and gigabytes where a million are wrong."""


def _text_parts_only(value: object) -> object:
    if isinstance(value, list):
        for index, part in enumerate(value):
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            if kind != "text" or not isinstance(part.get("text"), str):
                raise PydanticCustomError(
                    "text_part",
                    "part {index} is of type {kind}; only parts of type 'text' with a string 'text' can be rendered",
                    {"index": index, "kind": repr(kind)},
                )
    return value


def _object_arguments(value: object) -> object:
    try:
        parse_arguments(value)
    except NotAnObjectError as error:
        raise PydanticCustomError("arguments", "{reason}", {"reason": str(error)}) from error
    return value


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class TextPart(_Open):
    """A part of list-form content; only text can be rendered."""

    type: Literal["text"]
    text: str


class FunctionCall(_Open):
    """The function that an assistant called."""

    name: str
    arguments: Annotated[str | dict[str, Any] | None, BeforeValidator(_object_arguments)] = Field(
        default=None, description="A JSON object, as a string or as it is."
    )


class ToolCall(_Open):
    """One call of an assistant message."""

    id: str | None = None
    type: str | None = None
    function: FunctionCall


class ChatMessage(_Open):
    """One message of the history."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[str | Many[TextPart] | None, BeforeValidator(_text_parts_only)] = None
    reasoning_content: str | None = None
    tool_calls: Many[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None


_MESSAGES = TypeAdapter(Many[ChatMessage])


class FunctionTool(_Open):
    """The function of a tool; `parameters` is its JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(_Open):
    """A tool that the model may call."""

    type: Literal["function"] = "function"
    function: FunctionTool


class ChatBody(_Open):
    """A chat completion request. Other fields go to the engine unchanged."""

    messages: Many[ChatMessage] = Field(min_length=1)
    tools: Many[Tool] | None = None
    stream: bool | None = None
    n: Literal[1] | None = Field(default=None, description="A session records one completion per request.")
    chat_template_kwargs: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What every generation asks of the engine, beyond the client's request."""

    strict_tools: bool = True
    lora_path: str | None = None
    routed_experts: bool = False
    routed_experts_from_checkpoint: bool = False
    indexer_topk: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """A body in two: `front`, in pieces, ends with its last message, `rest` is what stands behind.

    `before` are the fields in front of the messages. Bodies of a session share the pieces that they have in common.
    """

    front: tuple[bytes, ...]
    rest: bytes
    before: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked request: `messages` have their text parts joined, `fields` are what else the client's object has.

    `unwritten` are the client's messages whose JSON is not in `written` yet. The leading messages are known to match
    the whole path of `repeated`. `cut` is the body at the end of its messages, where that is known.
    """

    fields: Mapping[str, Any]
    messages: tuple[Message, ...]
    unwritten: Sequence[Message]
    tools: Sequence[dict[str, Any]] | None
    template_kwargs: Mapping[str, Any]
    stream: bool
    budget: int | None
    written: tuple[bytes, ...] = ()
    repeated: Turn | None = None
    cut: Cut | None = None

    def engine_request(
        self, prompt: Snapshot, parent: Turn | None, *, template_kwargs: Mapping[str, Any], options: EngineOptions
    ) -> EngineRequest:
        """The request for the engine. `parent` is the turn that `prompt` continues.

        Raises:
            InvalidError: the request is nested more deeply than JSON is written.
        """
        body = dict(self.fields)
        for key in ("stream", "stream_options", "chat_template_kwargs", "input_ids"):
            body.pop(key, None)
        body["logprobs"] = True
        body["return_meta_info"] = True
        body["no_stop_trim"] = False
        if template_kwargs:
            body["chat_template_kwargs"] = dict(template_kwargs)
        if options.strict_tools and self.tools:
            body["tools"] = [_strict(tool) for tool in self.tools]
        if options.lora_path is not None:
            body["lora_path"] = options.lora_path
        if options.indexer_topk:
            body["return_indexer_topk"] = True
        if options.routed_experts:
            body["return_routed_experts"] = True
            if options.routed_experts_from_checkpoint:
                body["routed_experts_start_len"] = 0 if parent is None else max(0, len(parent.tokens) - 1)
        try:
            # one level deeper than they are, as deep as they will be
            texts = orjson.dumps([self.unwritten])[2:-2]
            fields = orjson.dumps(body)[:-1]
        except orjson.JSONEncodeError as error:
            raise InvalidError(f"the request cannot be sent on: {error}") from error
        return EngineRequest(fields, _continued(self.written, texts), _ids_text(prompt, parent))


def _continued(written: tuple[bytes, ...], text: bytes) -> tuple[bytes, ...]:
    """`written` and `text` as pieces of one list."""
    if not text:
        return written
    return (*written, b"," + text) if written else (text,)


def _ids_text(prompt: Snapshot, parent: Turn | None) -> tuple[bytes, ...]:
    """`prompt` as JSON without brackets, in pieces; what the parent's request already spelled is taken from there."""
    spelled = 0 if parent is None else parent.completion_start
    if parent is None or spelled == 0 or prompt.base is not parent.tokens or prompt.kept < spelled:
        return (_ids_json(prompt.ids()),)
    return _continued(parent.record.request.ids, _ids_json(prompt.behind(spelled)))


def _ids_json(ids: TokenIds) -> bytes:
    return orjson.dumps(ids.tolist())[1:-1]


def _strict(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    if function.get("strict") is not None:
        return tool
    return {**tool, "function": {**function, "strict": True}}


class OpenAI:
    """The dialect of chat completions: what comes in is what is rendered and sent on."""

    history_fields: Sequence[str] = ()

    def parse(self, raw: bytes) -> ChatRequest:
        """As `parse_chat`."""
        return parse_chat(raw)

    def check(self, fields: dict[str, Any]) -> ChatRequest:
        """As `check_chat`, of everything but the messages.

        Raises:
            InvalidError: a field is wrong.
        """
        return check_chat({**fields, "messages": [{"role": "user"}]})

    def appended(self, elements: list[Any]) -> list[Message]:
        """The messages themselves.

        Raises:
            InvalidError: one is wrong.
        """
        return checked_messages(elements)


def checked_messages(messages: list[Any]) -> list[Message]:
    """`messages`, checked as those of a body are.

    Raises:
        InvalidError: a field is wrong; the message names the first few.
    """
    try:
        _MESSAGES.validate_python(messages)
    except ValidationError as error:
        raise InvalidError(explain(error.errors(include_url=False))) from error
    return messages


def parse_chat(raw: bytes) -> ChatRequest:
    """Check the body of a chat completion request.

    Raises:
        InvalidError: it is not JSON, not an object, or a field is wrong; the message names the first few.
    """
    return check_chat(parse_object(raw))


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`.

    Raises:
        InvalidError: it is not JSON, or JSON of another kind.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidError(f"invalid JSON body: {error}") from error
    if not isinstance(body, dict):
        raise InvalidError(f"the body must be a JSON object, got {_kind(body)}")
    return body


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def check_chat(body: dict[str, Any]) -> ChatRequest:
    """Check a parsed chat completion request.

    Raises:
        InvalidError: a field is wrong; the message names the first few.
    """
    kwargs = body.get("chat_template_kwargs")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise InvalidError("chat_template_kwargs must be an object")
    try:
        checked = ChatBody.model_validate(body)
    except ValidationError as error:
        raise InvalidError(explain(error.errors(include_url=False))) from error
    budget = checked.max_completion_tokens if checked.max_completion_tokens is not None else checked.max_tokens
    return ChatRequest(
        fields={key: value for key, value in body.items() if key != "messages"},
        messages=tuple(map(as_text, body["messages"])),
        unwritten=body["messages"],
        tools=body.get("tools") or None,
        template_kwargs=kwargs or {},
        stream=bool(checked.stream),
        budget=budget,
    )


def as_text(message: Message) -> Message:
    """`message` with the text parts of its content joined."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "".join(part["text"] for part in content)}
