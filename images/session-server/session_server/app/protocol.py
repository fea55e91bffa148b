"""HTTP/1.1 with a bound on what stands around a request's body.

The parser keeps headers and trailers until they are complete, however long they become, and the server keeps what it is
given.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 64 * 1024
"""Bytes of request line and headers, or of what else comes without being body."""

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b'content-length: 52\r\n\r\n{"error":"the headers are larger than 65536 bytes"}\n'
)


class BoundedHead(HttpToolsProtocol):
    """Answers 431 and hangs up when a head grows beyond `LONGEST_HEAD`; what one read of the socket brings may pass."""

    _without_progress = 0

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        if self._without_progress > LONGEST_HEAD:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
            return
        self._without_progress += len(data)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """A head is complete."""
        self._without_progress = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body is there."""
        self._without_progress = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete."""
        self._without_progress = 0
        super().on_message_complete()
