"""Reading request bodies within the limit."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request


def too_large(limit: int) -> HTTPException:
    """The refusal of a body larger than `limit` bytes."""
    return HTTPException(413, f"the body is larger than {limit} bytes")


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        HTTPException: 413 as soon as more than `limit` bytes were announced or have come.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise HTTPException(400, "the connection ended before the body did") from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
