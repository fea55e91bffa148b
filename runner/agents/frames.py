"""Server-sent events, as far as bytes go: from a body that comes in pieces to whole frames.

It knows no dialect. What a frame may say, and in which order, is told by the reader of each wire format.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.agents.records import excerpt
from runner.base.errors import VerificationError

STAGE = "sse"


@dataclass(frozen=True)
class Frame:
    """One event: its number in the stream (from 1), its fields in order, and the bytes for messages."""

    number: int
    fields: list[tuple[str, bytes]]
    raw: bytes

    def violation(self, what: str) -> VerificationError:
        """The error for this frame."""
        return violation(self.number, what, self.raw)


@dataclass
class FrameReader:
    """Cuts a body into frames. `count` frames were seen so far, comments included."""

    count: int = 0
    _buffer: bytes = field(default=b"", repr=False)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete; frames may be cut anywhere. Comments are left out."""
        self._buffer = (self._buffer + data).replace(b"\r\n", b"\n")
        frames: list[Frame] = []
        while (end := self._buffer.find(b"\n\n")) >= 0:
            raw, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
            self.count += 1
            fields = [_field(line) for line in raw.split(b"\n") if line and not line.startswith(b":")]
            if fields:
                frames.append(Frame(self.count, fields, raw))
        return frames

    def finish(self) -> None:
        """Raises VerificationError when the body ended inside a frame."""
        if self._buffer.strip():
            raise violation(self.count, "the stream ends inside a frame", self._buffer)


def violation(number: int, what: str, raw: bytes = b"") -> VerificationError:
    """The error for what a stream may not do, naming the frame."""
    shown = f": {excerpt(raw, 200)}" if raw else ""
    return VerificationError(STAGE, f"frame {number}: {what}{shown}")


def _field(line: bytes) -> tuple[str, bytes]:
    name, _, value = line.partition(b":")
    return name.decode("ascii", "replace"), value.removeprefix(b" ")
