"""An engine that answers every request at once with the same completion. It parses nothing but the header.

A process of its own (`python -m bench.stub PORT_FILE TOKENIZER`): its event loop must not share the server's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
from session_server.tito.vocabulary import Vocabulary

ANSWER = "The weather is sunny today."


def reply(vocabulary: Vocabulary) -> bytes:
    """The one answer: a short completion whose ids decode to what it says."""
    ids = vocabulary.encode(f"<think>\n\n</think>\n\n{ANSWER}<|im_end|>")
    body = {
        "id": "stub",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": ANSWER, "reasoning_content": None, "tool_calls": None},
                "finish_reason": "stop",
                "meta_info": {
                    "completion_tokens": len(ids),
                    "output_token_logprobs": [[-0.5, token_id, None] for token_id in ids],
                },
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": len(ids), "total_tokens": len(ids)},
    }
    content = orjson.dumps(body)
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


class Stub(asyncio.Protocol):
    """Counts bytes until a request is complete, then answers."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            total = end + 4 + content_length(bytes(self._buffer[:end]))
            if len(self._buffer) < total:
                return
            del self._buffer[:total]
            if self._transport is not None:
                self._transport.write(self._answer)


def content_length(head: bytes) -> int:
    """Announced length of the body; 0 when there is none."""
    lower = head.lower()
    start = lower.find(b"content-length:")
    if start < 0:
        return 0
    end = lower.find(b"\r\n", start)
    return int(lower[start + 15 : end if end >= 0 else len(lower)])


async def serve(answer: bytes, announce: Callable[[str], object]) -> None:
    """Listen on a free port, announce its number, serve for ever."""
    server = await asyncio.get_running_loop().create_server(lambda: Stub(answer), "127.0.0.1", 0)
    announce(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


if __name__ == "__main__":
    port_file, tokenizer = Path(sys.argv[1]), Path(sys.argv[2])
    asyncio.run(serve(reply(Vocabulary.load(tokenizer, trust_remote_code=False)), port_file.write_text))
