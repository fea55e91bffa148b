"""What is said in a conversation is not said in the logs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from session_server.observe import logs
from session_server.settings import LogLevel
from session_testing.engine import Raw, Say
from session_testing.messages import send
from session_testing.server import Client
from structlog.testing import capture_logs

pytestmark = pytest.mark.anyio

SECRET = "sentinel-5f2c"
ASK = {"role": "user", "content": f"Tell nobody: {SECRET}"}


def spoiled(**message: Any) -> Raw:
    choice = {
        "message": {"role": "assistant", "content": SECRET, **message},
        "finish_reason": "stop",
        "meta_info": {"completion_tokens": 1, "output_token_logprobs": [[-1, 5]]},
    }
    return Raw(orjson.dumps({"choices": [choice]}))


CALL = {"id": "c", "type": "function", "function": {"name": SECRET, "arguments": f'{{"{SECRET}'}}
ANSWERS = {
    "a good one": Say(f"It is {SECRET}."),
    "a server error": Raw(f'{{"error": "cannot serve {SECRET}"}}'.encode(), status=500),
    "a refusal": Raw(f'{{"error": {{"message": "cannot serve {SECRET}"}}}}'.encode(), status=400),
    "no JSON": Raw(SECRET.encode()),
    "another role": spoiled(role=SECRET),
    "no arguments": spoiled(tool_calls=[CALL]),
    "no text": spoiled(content=[SECRET]),
    "no reason": Raw(orjson.dumps({"choices": [{"finish_reason": [SECRET]}]})),
    "a redirection": Raw(SECRET.encode(), status=302, headers={"location": f"/{SECRET}"}),
}


@pytest.fixture(autouse=True)
def everything() -> Iterator[None]:
    """All levels are logged."""
    logs.configure(LogLevel.DEBUG, "test-instance")
    yield
    logs.configure(LogLevel.ERROR, "test-instance")


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
@pytest.mark.parametrize("route", ["chat/completions", "messages"])
async def test_no_content_is_logged(start, route: str, answer: Say | Raw) -> None:
    async with start(core_version="v2") as client:
        session = await client.session()
        client.engine.script = [answer]
        with capture_logs() as logged:
            response = await ask(client, session, route)
            await client.http.post(f"{session}/samples", json={"metadata": {"a": SECRET}})
        assert response.status_code in (200, 400, 500, 502)
        told = [entry for entry in logged if entry["log_level"] != "debug"]
        assert {entry["event"] for entry in told} >= {"request"}
        assert SECRET not in repr(told)


async def ask(client: Client, session: str, route: str) -> Any:
    if route == "messages":
        return await send(client, session, [ASK], system=SECRET)
    return await client.chat(session, [ASK])


async def test_what_the_engine_said_is_there_for_who_asks_for_it(start) -> None:
    async with start(core_version="v2") as client:
        session = await client.session()
        client.engine.script = [ANSWERS["a server error"]]
        with capture_logs() as logged:
            await ask(client, session, "messages")
        assert SECRET in repr([entry for entry in logged if entry["log_level"] == "debug"])
