"""HTTP/1.1 with a bound on what stands in front of a request's body.

The parser keeps headers until they are complete, however long they become, and the server keeps what it is given.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 64 * 1024
"""Bytes of request line and headers."""

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b'content-length: 52\r\n\r\n{"error":"the headers are larger than 65536 bytes"}\n'
)


class BoundedHead(HttpToolsProtocol):
    """Answers 431 and hangs up when a head grows beyond `LONGEST_HEAD`; what one read of the socket brings may pass."""

    _head_bytes = 0
    _in_head = True

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes - len(data) > LONGEST_HEAD:
                self.transport.write(_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its head is complete."""
        self._in_head = False
        super().on_headers_complete()
