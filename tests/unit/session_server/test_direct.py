"""The short way to the generating routes answers as the framework's way does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from session_server.app import direct
from session_testing.engine import Raw, Say
from session_testing.server import SYSTEM, USER, Client

pytestmark = pytest.mark.anyio

Starting = Callable[..., AbstractAsyncContextManager[Client]]

OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
CHAT: dict[str, Any] = {"model": "m", "messages": [SYSTEM, USER]}
MESSAGE: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [USER]}
UNKNOWN = f"/sessions/{'0' * 32}"


def explode(stored: object, replayed: object) -> bool:
    """A custom matcher that fails."""
    raise ValueError("no")


async def asked(start: Starting, monkeypatch: pytest.MonkeyPatch, *, short: bool, **case: Any) -> list[httpx.Response]:
    """The answers to a case's requests, with or without the short way."""
    if not short:
        monkeypatch.setattr(direct, "_PATH", direct.re.compile(r"(?!)"))
    fields = {"core_version": "v2", "max_body_bytes": 4096, **case.get("settings", {})}
    async with start(**fields) as client:
        client.engine.script = list(case.get("script", ()))
        session = case.get("session") or await client.session()
        answers = []
        for body in case["bodies"]:
            content = body if isinstance(body, bytes) else httpx.Request("POST", "http://x", json=body).content
            answers.append(await client.http.post(f"{session}{case['path']}", content=content))
        await settled(client, session)
        return answers


async def settled(client: Client, session: str) -> None:
    """The session, where there is one, can still be shown."""
    assert (await client.http.get(session)).status_code in (200, 404)


def shown(response: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    """What a client sees, less the request's own id."""
    request_id = response.headers["x-request-id"]
    headers = {name: value for name, value in response.headers.items() if name != "x-request-id"}
    return response.status_code, headers, response.content.replace(request_id.encode(), b"ID")


CASES: dict[str, dict[str, Any]] = {
    "a turn": {"bodies": [CHAT, {**CHAT, "stream": True}]},
    "not JSON": {"bodies": [b"{"]},
    "not an object": {"bodies": [b"[]"]},
    "a wrong field": {"bodies": [{**CHAT, "messages": 1}]},
    "a body over the limit": {"bodies": [{**CHAT, "pad": "x" * 5000}]},
    "no such session": {"bodies": [CHAT], "session": UNKNOWN},
    "an engine's refusal": {"bodies": [CHAT], "script": [Raw(b'{"error": "busy"}', 429, {"retry-after": "3"})]},
    "an engine's nonsense": {"bodies": [CHAT], "script": [Raw(b"nonsense")]},
    "a cut parent": {
        "bodies": [CHAT, {**CHAT, "messages": [SYSTEM, USER, {"role": "assistant", "content": "Cut"}, USER]}],
        "script": [Say("Cut", reasoning=None, finish="length")],
    },
    "a matcher that fails": {"bodies": [CHAT, CHAT], "settings": {"matcher": f"{__name__}:explode"}},
    "a failure of the server": {"bodies": [CHAT], "script": [Raw(b"{}", 200, {"content-length": "two"})]},
}


@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize("name", CASES)
async def test_both_ways_answer_the_same(
    start: Starting, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    case = {**CASES[name], "path": path}
    if path == ANTHROPIC:
        case["bodies"] = [
            body if isinstance(body, bytes) else {**MESSAGE, **{k: v for k, v in body.items() if k != "model"}}
            for body in case["bodies"]
        ]
    short = await asked(start, monkeypatch, short=True, **case)
    whole = await asked(start, monkeypatch, short=False, **case)
    assert [shown(answer) for answer in short] == [shown(answer) for answer in whole]


async def test_only_what_is_plainly_a_generating_route_goes_the_short_way(
    v2: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    pattern = direct._PATH

    class Watched:
        @staticmethod
        def match(path: str) -> Any:
            found = pattern.match(path)
            seen.append(f"{path.rpartition('/')[2]} {found is not None}")
            return found

    monkeypatch.setattr(direct, "_PATH", Watched)
    session = await v2.session()
    seen.clear()
    assert (await v2.http.get(f"{session}{OPENAI}")).status_code == 405
    assert seen == []
    assert (await v2.http.post(f"{session}{OPENAI}", json=CHAT)).status_code == 200
    assert (await v2.http.post(f"{session}{ANTHROPIC}/count_tokens", json=MESSAGE)).status_code == 200
    await v2.http.post(f"{session}{OPENAI}%0A", json=CHAT)
    assert seen == ["completions True", "count_tokens False", "completions\n False"]
