"""A strict reader of chat-completion streams: bytes in, one finished reply out.

A lenient client hides the faults that this project exists to find, so everything that the contract does not allow is an
error that names the frame: an index out of order, a delta after the finish reason, a second or missing `[DONE]`, bytes
after it, a tool call that changes its id half way. It does not repair, reorder or guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
from pydantic import JsonValue

from runner.agents.records import JsonObject, Usage, excerpt
from runner.base.errors import VerificationError

STAGE = "sse"
_DELTA_KEYS = frozenset({"role", "content", "reasoning_content", "tool_calls"})


@dataclass
class _Call:
    """One tool call as it grows."""

    id: str
    type: str
    name: str
    arguments: str


@dataclass
class StreamedReply:
    """What a stream amounts to."""

    id: str
    message: JsonObject
    finish_reason: str
    usage: Usage | None


@dataclass
class Assembler:
    """Feed it the bytes as they come, then ask for `reply()`.

    Every method raises VerificationError(stage `sse`) at the first violation.
    """

    _buffer: bytes = b""
    _frames: int = 0
    _id: str | None = None
    _role: str | None = None
    _content: str | None = None
    _reasoning: str | None = None
    _calls: list[_Call] = field(default_factory=list)
    _finish: str | None = None
    _usage: Usage | None = None
    _done: bool = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body. Frames may be cut anywhere between calls."""
        self._buffer = (self._buffer + data).replace(b"\r\n", b"\n")
        while (end := self._buffer.find(b"\n\n")) >= 0:
            frame, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
            self._frames += 1
            self._frame(frame)

    def reply(self) -> StreamedReply:
        """The assembled reply, once the body has ended."""
        if self._buffer.strip():
            raise self._violation("the stream ends inside a frame", self._buffer)
        if not self._done:
            raise self._violation("the stream ends without [DONE]", b"")
        if self._finish is None or self._id is None:
            raise self._violation("[DONE] came before any finish reason", b"")
        if self._role != "assistant":
            raise self._violation(f"the role is {self._role!r}, not 'assistant'", b"")
        message: JsonObject = {"role": "assistant", "content": self._content}
        if self._reasoning is not None:
            message["reasoning_content"] = self._reasoning
        if self._calls:
            calls: list[JsonValue] = [
                {"id": call.id, "type": call.type, "function": {"name": call.name, "arguments": call.arguments}}
                for call in self._calls
            ]
            message["tool_calls"] = calls
        return StreamedReply(self._id, message, self._finish, self._usage)

    def _violation(self, what: str, frame: bytes) -> VerificationError:
        shown = f": {excerpt(frame, 200)}" if frame else ""
        return VerificationError(STAGE, f"frame {self._frames}: {what}{shown}")

    def _frame(self, frame: bytes) -> None:
        if self._done:
            raise self._violation("a frame after [DONE]", frame)
        lines = [line for line in frame.split(b"\n") if line and not line.startswith(b":")]
        if not lines:
            return  # a comment, which servers send to keep a connection open
        if len(lines) != 1 or not lines[0].startswith(b"data:"):
            raise self._violation("expected exactly one 'data:' line", frame)
        data = lines[0].removeprefix(b"data:").strip()
        if data == b"[DONE]":
            self._done = True
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise self._violation(f"not JSON ({error})", frame) from error
        if not isinstance(chunk, dict):
            raise self._violation("not a JSON object", frame)
        self._chunk(chunk, frame)

    def _chunk(self, chunk: JsonObject, frame: bytes) -> None:
        if chunk.get("object") != "chat.completion.chunk":
            raise self._violation(f"object is {chunk.get('object')!r}, not 'chat.completion.chunk'", frame)
        identity = chunk.get("id")
        if not isinstance(identity, str) or not identity:
            raise self._violation("the chunk has no id", frame)
        if self._id is not None and identity != self._id:
            raise self._violation(f"the id changes from {self._id!r} to {identity!r}", frame)
        self._id = identity
        usage = chunk.get("usage")
        choices = chunk.get("choices")
        if not isinstance(choices, list) or len(choices) > 1:
            raise self._violation("expected a list of at most one choice", frame)
        if choices:
            self._choice(choices[0], frame)
        elif self._finish is None:
            raise self._violation("a chunk without a choice before the finish reason", frame)
        elif usage is None:
            raise self._violation("a chunk with neither choice nor usage", frame)
        if usage is not None:
            if self._usage is not None:
                raise self._violation("usage comes twice", frame)
            try:
                self._usage = Usage.model_validate(usage)
            except ValueError as error:
                raise self._violation(f"usage does not hold the token counts ({error})", frame) from error

    def _choice(self, choice: JsonValue, frame: bytes) -> None:
        if not isinstance(choice, dict):
            raise self._violation("the choice is not an object", frame)
        index = choice.get("index")
        if index != 0 or isinstance(index, bool):
            raise self._violation(f"choice index is {index!r}, expected 0", frame)
        if self._finish is not None:
            raise self._violation(f"a delta after the finish reason {self._finish!r}", frame)
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            raise self._violation("the choice has no delta object", frame)
        self._delta(delta, frame)
        finish = choice.get("finish_reason")
        if finish is not None:
            if not isinstance(finish, str) or not finish:
                raise self._violation(f"finish_reason is {finish!r}", frame)
            self._finish = finish

    def _delta(self, delta: JsonObject, frame: bytes) -> None:
        unknown = sorted(key for key, value in delta.items() if key not in _DELTA_KEYS and value is not None)
        if unknown:
            raise self._violation(f"unknown delta fields {', '.join(unknown)}", frame)
        role = delta.get("role")
        if self._role is None:
            if not isinstance(role, str):
                raise self._violation("the first delta has no role", frame)
            self._role = role
        elif role is not None and role != self._role:
            raise self._violation(f"the role changes from {self._role!r} to {role!r}", frame)
        self._content = self._grown(self._content, delta, "content", frame)
        self._reasoning = self._grown(self._reasoning, delta, "reasoning_content", frame)
        calls = delta.get("tool_calls")
        if calls is None:
            return
        if not isinstance(calls, list):
            raise self._violation("tool_calls is not a list", frame)
        for call in calls:
            if not isinstance(call, dict):
                raise self._violation("a tool call is not an object", frame)
            self._call(call, frame)

    def _grown(self, so_far: str | None, delta: JsonObject, key: str, frame: bytes) -> str | None:
        piece = delta.get(key)
        if piece is None:
            return so_far
        if not isinstance(piece, str):
            raise self._violation(f"{key} is not text", frame)
        return (so_far or "") + piece

    def _call(self, call: JsonObject, frame: bytes) -> None:
        index = call.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            raise self._violation(f"tool call index is {index!r}, expected a number", frame)
        function = call.get("function")
        if not isinstance(function, dict):
            raise self._violation("a tool call has no function object", frame)
        identity, kind, name = call.get("id"), call.get("type"), function.get("name")
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            raise self._violation("tool call arguments are not text", frame)
        if index == len(self._calls):
            if not isinstance(identity, str) or not identity or not isinstance(name, str) or not name:
                raise self._violation(f"tool call {index} begins without id and name", frame)
            if kind not in (None, "function"):
                raise self._violation(f"tool call {index} has type {kind!r}, expected 'function'", frame)
            if identity in {known.id for known in self._calls}:
                raise self._violation(f"tool call {index} repeats the id {identity!r}", frame)
            self._calls.append(_Call(identity, "function", name, arguments or ""))
            return
        if not self._calls or index != len(self._calls) - 1:
            expected = f"{len(self._calls) - 1} or {len(self._calls)}" if self._calls else "0"
            raise self._violation(f"tool call index is {index}, expected {expected}", frame)
        current = self._calls[index]
        for what, new, old in (("id", identity, current.id), ("name", name, current.name)):
            if new not in (None, "", old):
                raise self._violation(f"tool call {index} changes its {what} from {old!r} to {new!r}", frame)
        current.arguments += arguments or ""
