"""Reading request bodies within the limit."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request


def too_large(limit: int) -> HTTPException:
    """The refusal of a body larger than `limit` bytes."""
    return HTTPException(413, f"the body is larger than {limit} bytes")


async def receive_body(request: Request, limit: int, take: Callable[[bytes], object]) -> None:
    """Hand the body to `take` piece by piece, as it comes in.

    Raises:
        HTTPException: 413 as soon as more than `limit` bytes were announced or have come.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise too_large(limit)
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            take(chunk)
    except ClientDisconnect as error:
        raise HTTPException(400, "the connection ended before the body did") from error


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body.

    Raises:
        HTTPException: 413 as soon as more than `limit` bytes were announced or have come.
    """
    chunks: list[bytes] = []
    await receive_body(request, limit, chunks.append)
    return b"".join(chunks)
