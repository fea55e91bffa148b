"""A strict reader of chat-completion streams: bytes in, one finished reply out.

A lenient client hides the faults that this project exists to find, so everything that the contract does not allow is an
error that names the frame: an index out of order, a delta after the finish reason, a second or missing `[DONE]`, bytes
after it, a tool call that changes its id half way. It does not repair, reorder or guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
from pydantic import JsonValue

from runner.agents.frames import Frame, FrameReader, violation
from runner.agents.records import JsonObject, Reply, Usage
from runner.base.errors import VerificationError

_DELTA_KEYS = frozenset({"role", "content", "reasoning_content", "tool_calls"})


@dataclass
class _Call:
    """One tool call as it grows."""

    id: str
    type: str
    name: str
    arguments: str


@dataclass
class Assembler:
    """Feed it the bytes as they come, then ask for `reply()`.

    Every method raises VerificationError(stage `sse`) at the first violation.
    """

    _frames: FrameReader = field(default_factory=FrameReader)
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
        for frame in self._frames.feed(data):
            self._frame(frame)

    def reply(self) -> Reply:
        """The assembled reply, once the body has ended. Streams carry no ids."""
        self._frames.finish()
        if not self._done:
            raise self._missing("the stream ends without [DONE]")
        if self._finish is None or self._id is None:
            raise self._missing("[DONE] came before any finish reason")
        if self._role != "assistant":
            raise self._missing(f"the role is {self._role!r}, not 'assistant'")
        message: JsonObject = {"role": "assistant", "content": self._content}
        if self._reasoning is not None:
            message["reasoning_content"] = self._reasoning
        if self._calls:
            calls: list[JsonValue] = [
                {"id": call.id, "type": call.type, "function": {"name": call.name, "arguments": call.arguments}}
                for call in self._calls
            ]
            message["tool_calls"] = calls
        return Reply(self._id, message, self._finish, self._usage, None)

    def _missing(self, what: str) -> VerificationError:
        return violation(self._frames.count, what)

    def _frame(self, frame: Frame) -> None:
        if self._done:
            raise frame.violation("a frame after [DONE]")
        if len(frame.fields) != 1 or frame.fields[0][0] != "data":
            raise frame.violation("expected exactly one 'data:' line")
        data = frame.fields[0][1].strip()
        if data == b"[DONE]":
            self._done = True
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise frame.violation(f"not JSON ({error})") from error
        if not isinstance(chunk, dict):
            raise frame.violation("not a JSON object")
        self._chunk(chunk, frame)

    def _chunk(self, chunk: JsonObject, frame: Frame) -> None:
        if chunk.get("object") != "chat.completion.chunk":
            raise frame.violation(f"object is {chunk.get('object')!r}, not 'chat.completion.chunk'")
        identity = chunk.get("id")
        if not isinstance(identity, str) or not identity:
            raise frame.violation("the chunk has no id")
        if self._id is not None and identity != self._id:
            raise frame.violation(f"the id changes from {self._id!r} to {identity!r}")
        self._id = identity
        usage = chunk.get("usage")
        choices = chunk.get("choices")
        if not isinstance(choices, list) or len(choices) > 1:
            raise frame.violation("expected a list of at most one choice")
        if choices:
            self._choice(choices[0], frame)
        elif self._finish is None:
            raise frame.violation("a chunk without a choice before the finish reason")
        elif usage is None:
            raise frame.violation("a chunk with neither choice nor usage")
        if usage is not None:
            if self._usage is not None:
                raise frame.violation("usage comes twice")
            try:
                self._usage = Usage.model_validate(usage)
            except ValueError as error:
                raise frame.violation(f"usage does not hold the token counts ({error})") from error

    def _choice(self, choice: JsonValue, frame: Frame) -> None:
        if not isinstance(choice, dict):
            raise frame.violation("the choice is not an object")
        index = choice.get("index")
        if index != 0 or isinstance(index, bool):
            raise frame.violation(f"choice index is {index!r}, expected 0")
        if self._finish is not None:
            raise frame.violation(f"a delta after the finish reason {self._finish!r}")
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            raise frame.violation("the choice has no delta object")
        self._delta(delta, frame)
        finish = choice.get("finish_reason")
        if finish is not None:
            if not isinstance(finish, str) or not finish:
                raise frame.violation(f"finish_reason is {finish!r}")
            self._finish = finish

    def _delta(self, delta: JsonObject, frame: Frame) -> None:
        unknown = sorted(key for key, value in delta.items() if key not in _DELTA_KEYS and value is not None)
        if unknown:
            raise frame.violation(f"unknown delta fields {', '.join(unknown)}")
        role = delta.get("role")
        if self._role is None:
            if not isinstance(role, str):
                raise frame.violation("the first delta has no role")
            self._role = role
        elif role is not None and role != self._role:
            raise frame.violation(f"the role changes from {self._role!r} to {role!r}")
        self._content = self._grown(self._content, delta, "content", frame)
        self._reasoning = self._grown(self._reasoning, delta, "reasoning_content", frame)
        calls = delta.get("tool_calls")
        if calls is None:
            return
        if not isinstance(calls, list):
            raise frame.violation("tool_calls is not a list")
        for call in calls:
            if not isinstance(call, dict):
                raise frame.violation("a tool call is not an object")
            self._call(call, frame)

    def _grown(self, so_far: str | None, delta: JsonObject, key: str, frame: Frame) -> str | None:
        piece = delta.get(key)
        if piece is None:
            return so_far
        if not isinstance(piece, str):
            raise frame.violation(f"{key} is not text")
        return (so_far or "") + piece

    def _call(self, call: JsonObject, frame: Frame) -> None:
        index = call.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            raise frame.violation(f"tool call index is {index!r}, expected a number")
        function = call.get("function")
        if not isinstance(function, dict):
            raise frame.violation("a tool call has no function object")
        identity, kind, name = call.get("id"), call.get("type"), function.get("name")
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            raise frame.violation("tool call arguments are not text")
        if index == len(self._calls):
            if not isinstance(identity, str) or not identity or not isinstance(name, str) or not name:
                raise frame.violation(f"tool call {index} begins without id and name")
            if kind not in (None, "function"):
                raise frame.violation(f"tool call {index} has type {kind!r}, expected 'function'")
            if identity in {known.id for known in self._calls}:
                raise frame.violation(f"tool call {index} repeats the id {identity!r}")
            self._calls.append(_Call(identity, "function", name, arguments or ""))
            return
        if not self._calls or index != len(self._calls) - 1:
            expected = f"{len(self._calls) - 1} or {len(self._calls)}" if self._calls else "0"
            raise frame.violation(f"tool call index is {index}, expected {expected}")
        current = self._calls[index]
        for what, new, old in (("id", identity, current.id), ("name", name, current.name)):
            if new not in (None, "", old):
                raise frame.violation(f"tool call {index} changes its {what} from {old!r} to {new!r}")
        current.arguments += arguments or ""
