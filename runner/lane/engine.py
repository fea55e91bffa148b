"""One question to the engine itself, over HTTP: bounded, never repeated, and clear about who is to blame.

What the answer means is for whoever asked.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
import orjson

from runner.agents.records import JsonObject
from runner.agents.session import ENGINE, ServiceError

SECONDS: Final = 120.0
"""Bound of one question to the engine."""
_JSON: Final = {"content-type": "application/json"}


async def ask(
    http: httpx.AsyncClient, path: str, body: JsonObject | None = None, *, key: str | None = None
) -> tuple[int, bytes]:
    """Status and body of `POST path`, or of `GET path` where there is no `body`.

    `key` is the routing key by which an engine tells sessions apart. Raises ServiceError when there is no answer.
    """
    headers = _JSON if key is None else {**_JSON, "x-smg-routing-key": key}
    try:
        async with asyncio.timeout(SECONDS):
            if body is None:
                response = await http.get(path)
            else:
                response = await http.post(path, content=orjson.dumps(body), headers=headers)
    except TimeoutError as error:
        raise ServiceError(ENGINE, f"the engine did not answer {path} within {SECONDS:g} s") from error
    except httpx.TransportError as error:
        raise ServiceError(ENGINE, f"the engine cannot be asked {path}: {type(error).__name__}: {error}") from error
    return response.status_code, response.content
