"""Turns whose reply is not simply waited for: left before it came, left while it came, or cut off by something else.

All of it is made of conditions that a client can see: the request is on its way when its last byte was handed to the
socket, the server has it when it has answered other requests since, and a reply has begun with its status line. There
is nothing to wait for by the clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

from runner.agents.records import JsonObject, Reply, excerpt
from runner.agents.session import Refused, SessionClient
from runner.base.errors import VerificationError

ROUNDS = 2
"""Requests that a server must have answered since the turn was sent: by then it has read what came before them."""


@dataclass(frozen=True)
class Pending:
    """A turn that the server has, and to which no answer was read so far."""

    exchange: asyncio.Task[Reply | Refused]

    @classmethod
    async def begin(
        cls, client: SessionClient, session_id: str, path: str, body: JsonObject, seconds: float
    ) -> Pending:
        """Send a turn and come back as soon as the server has it; `seconds` bound its whole exchange.

        Raises VerificationError or InfrastructureError when the session cannot be asked meanwhile.
        """
        sent = asyncio.Event()
        exchange = asyncio.create_task(client.offer(session_id, path, body, seconds, sent.set))
        on_its_way = asyncio.create_task(sent.wait())
        try:
            await asyncio.wait({exchange, on_its_way}, return_when=asyncio.FIRST_COMPLETED)
            for _ in range(ROUNDS):
                await client.get(session_id)
        except BaseException:
            await _cancelled(exchange)
            raise
        finally:
            on_its_way.cancel()
        return cls(exchange)

    async def answer(self) -> Reply | Refused:
        """What it was answered. Raises what `SessionClient.offer` raises."""
        return await self.exchange

    async def close(self) -> None:
        """End the exchange, whatever it has come to."""
        await _cancelled(self.exchange)

    async def leave(self) -> bool:
        """Close the connection. True when the reply had come by then, so that a generation must be recorded.

        Raises VerificationError when the turn had been refused.
        """
        if not self.exchange.done():
            await _cancelled(self.exchange)
            return False
        answer = await self.exchange
        if isinstance(answer, Refused):
            raise VerificationError("turn", f"the turn was answered {answer.status}, expected 200: {answer.text}")
        return True


async def leave_begun(
    client: SessionClient, session_id: str, path: str, body: JsonObject, seconds: float, *, into_body: bool
) -> None:
    """Send a turn and close the connection when the reply has begun: behind its status line, or with `into_body` behind
    the first bytes of its body.

    Raises VerificationError when the turn is refused or the body is empty, InfrastructureError when nothing comes.
    """
    async with client.opened(session_id, path, body, seconds) as response:
        if response.status_code != 200:
            text = excerpt(await response.aread())
            raise VerificationError("turn", f"POST {path} answered {response.status_code}, expected 200: {text}")
        if not into_body:
            return
        # a generator, which httpx calls an iterator; left open it would be closed some time later, by the collector
        async with aclosing(cast("AsyncGenerator[bytes, None]", response.aiter_raw())) as pieces:
            async for piece in pieces:
                if piece:
                    return
        raise VerificationError("turn", f"POST {path} answered 200 with an empty body")


async def _cancelled(exchange: asyncio.Task[Reply | Refused]) -> None:
    """End an exchange, and with it its connection."""
    exchange.cancel()
    await asyncio.gather(exchange, return_exceptions=True)
