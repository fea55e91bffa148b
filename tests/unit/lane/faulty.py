"""Session servers with one fault each, for tests: ours, wrapped in an application that spoils one thing.

Each of them does what was once reported of a real server. They work on what goes over the wire, so that nothing of the
session server needs to know of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Fault = Callable[[App], App]


@dataclass(frozen=True)
class Turn:
    """A turn that was taken off the wire: its session's path, its body, and how to go on with it."""

    session: str
    body: bytes
    receive: Receive


def is_turn(scope: Scope) -> bool:
    """Whether this is a request for a turn of a session."""
    return scope["type"] == "http" and scope["method"] == "POST" and "/v1/" in scope["path"]


async def read_turn(scope: Scope, receive: Receive) -> Turn:
    """Take the body of a turn; `Turn.receive` gives it again, and the client's going after it."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return Turn(scope["path"].split("/v1/")[0], body, again)


async def whole(app: App, scope: Scope, receive: Receive) -> list[Message]:
    """The answer, kept back."""
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, keep)
    return messages


async def answer(send: Send, status: int, body: object) -> None:
    """A JSON answer."""
    content = orjson.dumps(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def remembering(app: App) -> App:
    """Answers an equal body from memory, as replay caches do."""
    memory: dict[tuple[str, bytes], list[Message]] = {}

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if not is_turn(scope):
            await app(scope, receive, send)
            return
        turn = await read_turn(scope, receive)
        key = scope["path"], turn.body
        messages = memory.get(key) or await whole(app, scope, turn.receive)
        if messages[0]["status"] == 200:
            memory[key] = messages
        for message in messages:
            await send(message)

    return served


def dead_after_hang_up(app: App) -> App:
    """Refuses every turn of a session of which one reply was not read, as a line does that cannot go one step back."""
    turns: Counter[str] = Counter()
    dead: set[str] = set()

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if not is_turn(scope):
            await app(scope, receive, send)
            return
        turn = await read_turn(scope, receive)
        if turn.session in dead:
            await answer(send, 400, {"error": "rollback failed: discard_count=1"})
            return
        turns[turn.session] += 1
        if turns[turn.session] == 1:  # every script of lost replies loses its first
            dead.add(turn.session)
        await app(scope, turn.receive, send)

    return served


def patient(app: App) -> App:
    """Lets DELETE wait until the turns of the session are done, and answers those as if nothing had happened."""
    busy: Counter[str] = Counter()
    done: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            while busy[scope["path"]]:
                done[scope["path"]].clear()
                await done[scope["path"]].wait()
            await app(scope, receive, send)
            return
        if not is_turn(scope):
            await app(scope, receive, send)
            return
        turn = await read_turn(scope, receive)
        busy[turn.session] += 1
        try:
            await app(scope, turn.receive, send)
        finally:
            busy[turn.session] -= 1
            done[turn.session].set()

    return served


def endless_delete(app: App) -> App:
    """Never answers DELETE while a turn is generated."""
    busy: Counter[str] = Counter()

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE" and busy[scope["path"]]:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if not is_turn(scope):
            await app(scope, receive, send)
            return
        turn = await read_turn(scope, receive)
        busy[turn.session] += 1
        try:
            await app(scope, turn.receive, send)
        finally:
            busy[turn.session] -= 1

    return served


def finished_when_cut(app: App) -> App:
    """Tells the client that a cut reply ended with a call."""
    told = (
        (b'"finish_reason":"length"', b'"finish_reason":"tool_calls"'),
        (b'"stop_reason":"max_tokens"', b'"stop_reason":"tool_use"'),
    )

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if not is_turn(scope):
            await app(scope, receive, send)
            return
        turn = await read_turn(scope, receive)
        start, *rest = await whole(app, scope, turn.receive)
        body = b"".join(message.get("body", b"") for message in rest)
        for cut, finished in told:
            body = body.replace(cut, finished)
        headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})

    return served


def half_replies(app: App) -> App:
    """Answers a turn whose session is deleted with what was made of it so far, as if it had ended by itself."""
    deleted: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "DELETE":
            deleted[scope["path"]].set()
        if not is_turn(scope) or deleted[scope["path"].split("/v1/")[0]].is_set():
            await app(scope, receive, send)
            return
        turn = await read_turn(scope, receive)
        made = asyncio.create_task(whole(app, scope, turn.receive))
        cut = asyncio.create_task(deleted[turn.session].wait())
        await asyncio.wait({made, cut}, return_when=asyncio.FIRST_COMPLETED)
        if deleted[turn.session].is_set():
            made.cancel()
            await asyncio.gather(made, return_exceptions=True)
            half = {"index": 0, "message": {"role": "assistant", "content": "It is"}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
            await answer(send, 200, {"id": "half", "choices": [half], "usage": usage})
            return
        cut.cancel()
        for message in made.result():
            await send(message)

    return served
