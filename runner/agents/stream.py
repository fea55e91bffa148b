"""A strict reader of Anthropic message streams: bytes in, one finished reply out.

The grammar is `message_start`, then the blocks one after the other (`content_block_start`, deltas of the block's own
type, `content_block_stop`), then `message_delta` with the stop reason, then `message_stop` and nothing more. `ping` may
come anywhere in between. Everything else is an error that names the frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson
from pydantic import JsonValue

from runner.agents.frames import Frame, FrameReader, violation
from runner.agents.messages import message_reply
from runner.agents.records import JsonObject, Reply

_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""For each type of delta the type of block that it may fill, and the field that it adds to."""


@dataclass
class MessageAssembler:
    """Feed it the bytes as they come, then ask for `reply()`.

    Every method raises VerificationError(stage `sse`) at the first violation.
    """

    _frames: FrameReader = field(default_factory=FrameReader)
    _message: JsonObject | None = None
    _usage: JsonObject = field(default_factory=dict)
    _blocks: list[JsonValue] = field(default_factory=list)
    _open: JsonObject | None = None
    _written: str = ""
    _stop_reason: JsonValue = None
    _delta_seen: bool = False
    _stopped: bool = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body. Frames may be cut anywhere between calls."""
        for frame in self._frames.feed(data):
            self._frame(frame)

    def reply(self) -> Reply:
        """The assembled reply, once the body has ended."""
        self._frames.finish()
        if self._message is None or not self._stopped:
            raise violation(self._frames.count, "the stream ends without message_stop")
        return message_reply(
            {**self._message, "content": self._blocks, "stop_reason": self._stop_reason, "usage": self._usage}
        )

    def _frame(self, frame: Frame) -> None:
        if self._stopped:
            raise frame.violation("a frame after message_stop")
        if [name for name, _ in frame.fields] != ["event", "data"]:
            raise frame.violation("expected one 'event:' line and one 'data:' line")
        event = frame.fields[0][1].decode("utf-8", "replace").strip()
        try:
            data = orjson.loads(frame.fields[1][1])
        except orjson.JSONDecodeError as error:
            raise frame.violation(f"not JSON ({error})") from error
        if not isinstance(data, dict) or data.get("type") != event:
            raise frame.violation(f"the data is not of the event's type {event!r}")
        self._event(event, data, frame)

    def _event(self, event: str, data: JsonObject, frame: Frame) -> None:
        if event == "ping":
            return
        if event == "error":
            raise frame.violation("the stream reports an error")
        if (self._message is None) != (event == "message_start"):
            raise frame.violation("message_start comes once, and first")
        match event:
            case "message_start":
                self._start(data, frame)
            case "content_block_start":
                self._open_block(data, frame)
            case "content_block_delta":
                self._fill_block(data, frame)
            case "content_block_stop":
                self._close_block(data, frame)
            case "message_delta":
                self._end(data, frame)
            case "message_stop":
                if not self._delta_seen:
                    raise frame.violation("message_stop before message_delta")
                self._stopped = True
            case _:
                raise frame.violation(f"an event {event!r} that the grammar does not have")

    def _start(self, data: JsonObject, frame: Frame) -> None:
        message = data.get("message")
        if not isinstance(message, dict):
            raise frame.violation("message_start has no message")
        if message.get("content") != [] or message.get("stop_reason") is not None:
            raise frame.violation("the message of message_start has content or a stop reason already")
        usage = message.get("usage")
        if not isinstance(usage, dict):
            raise frame.violation("the message of message_start has no usage")
        self._message, self._usage = message, dict(usage)

    def _open_block(self, data: JsonObject, frame: Frame) -> None:
        if self._open is not None:
            raise frame.violation(f"a block is opened while block {len(self._blocks)} is open")
        if self._delta_seen:
            raise frame.violation("a block after message_delta")
        self._at(len(self._blocks), data, frame)
        block = data.get("content_block")
        if not isinstance(block, dict):
            raise frame.violation("content_block_start has no block")
        kind = block.get("type")
        empty = {"text": "text", "thinking": "thinking"}.get(str(kind))
        if (empty is not None and block.get(empty) != "") or (kind == "tool_use" and block.get("input") != {}):
            raise frame.violation("a block is opened with content in it")
        self._open, self._written = dict(block), ""

    def _fill_block(self, data: JsonObject, frame: Frame) -> None:
        if self._open is None:
            raise frame.violation("a delta while no block is open")
        self._at(len(self._blocks), data, frame)
        delta = data.get("delta")
        kind = delta.get("type") if isinstance(delta, dict) else None
        if not isinstance(delta, dict) or not isinstance(kind, str) or kind not in _DELTAS:
            raise frame.violation(f"a delta of type {kind!r}")
        fills, key = _DELTAS[kind]
        piece = delta.get(key)
        if self._open.get("type") != fills:
            raise frame.violation(f"a {kind} for a block of type {self._open.get('type')!r}")
        if not isinstance(piece, str):
            raise frame.violation(f"a {kind} without {key}")
        if kind == "input_json_delta":
            self._written += piece
        else:
            before = self._open.get(key)
            self._open[key] = (before if isinstance(before, str) else "") + piece

    def _close_block(self, data: JsonObject, frame: Frame) -> None:
        if self._open is None:
            raise frame.violation("content_block_stop while no block is open")
        self._at(len(self._blocks), data, frame)
        if self._open.get("type") == "tool_use":
            try:
                self._open["input"] = orjson.loads(self._written) if self._written else {}
            except orjson.JSONDecodeError as error:
                raise frame.violation(f"the input of block {len(self._blocks)} is not JSON ({error})") from error
        self._blocks.append(self._open)
        self._open = None

    def _end(self, data: JsonObject, frame: Frame) -> None:
        if self._open is not None:
            raise frame.violation(f"message_delta while block {len(self._blocks)} is open")
        delta, usage = data.get("delta"), data.get("usage")
        if not isinstance(delta, dict) or not isinstance(usage, dict):
            raise frame.violation("message_delta without delta and usage")
        if self._delta_seen:
            raise frame.violation("message_delta comes twice")
        self._delta_seen = True
        self._stop_reason = delta.get("stop_reason")
        self._usage.update({key: value for key, value in usage.items() if value is not None})

    def _at(self, expected: int, data: JsonObject, frame: Frame) -> None:
        index = data.get("index")
        if index != expected or isinstance(index, bool):
            raise frame.violation(f"block index is {index!r}, expected {expected}")
