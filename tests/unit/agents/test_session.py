"""The client: who is blamed for which broken exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from runner.agents.session import ServiceError, SessionClient
from runner.base.errors import InfrastructureError, VerificationError

Handler = Callable[[httpx.Request], httpx.Response]
GOOD = {
    "id": "r1",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi"},
            "finish_reason": "stop",
            "meta_info": {"output_token_logprobs": [[-0.1, 5, None], [-0.2, 6]], "completion_tokens": 2},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


def ask(handler: Handler, *, stream: bool = False, seconds: float = 5.0) -> object:
    async def run() -> object:
        transport = httpx.MockTransport(handler)
        async with httpx.AsyncClient(transport=transport, base_url="http://session") as http:
            return await SessionClient(http, "session-v1").complete("s1", {"stream": stream}, seconds)

    return asyncio.run(run())


def test_a_plain_reply_brings_message_counts_and_ids() -> None:
    reply = ask(lambda request: httpx.Response(200, json=GOOD))
    assert reply.id == "r1"  # type: ignore[attr-defined]
    assert reply.output_ids == [5, 6]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("cut")]
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_broken_connection_is_infrastructure_and_names_the_service(error: Exception, stream: bool) -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(InfrastructureError, match=f"session-v1: {type(error).__name__}") as caught:
        ask(broken, stream=stream)
    assert isinstance(caught.value, ServiceError)
    assert caught.value.service == "session-v1"


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_cannot_be_reached_is_infrastructure_of_the_engine(stream: bool) -> None:
    body = {"error": "backend transport error: ConnectError: all attempts failed"}
    with pytest.raises(ServiceError, match="cannot reach the engine") as caught:
        ask(lambda request: httpx.Response(502, json=body), stream=stream)
    assert caught.value.service == "engine"


def test_an_overloaded_server_is_infrastructure() -> None:
    with pytest.raises(ServiceError, match="answered 503"):
        ask(lambda request: httpx.Response(503, text="busy"))


@pytest.mark.parametrize("status", [400, 404, 409, 429, 500, 502])
@pytest.mark.parametrize("stream", [True, False])
def test_any_other_answer_is_a_failed_check_with_status_and_body(status: int, stream: bool) -> None:
    with pytest.raises(VerificationError, match=rf"answered {status}, expected 200: .*the reason") as caught:
        ask(lambda request: httpx.Response(status, json={"error": "the reason"}), stream=stream)
    assert caught.value.stage == "turn"


def test_no_reply_within_the_time_is_infrastructure() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        return httpx.Response(200)

    with pytest.raises(ServiceError, match=r"no complete reply within 0\.05 s"):
        ask(never, seconds=0.05)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not a completion"),
        (b"[]", "not a completion"),
        (b'{"id": "r", "choices": []}', "0 choices"),
        (b'{"id": "r", "choices": [{"index": 1, "message": {}, "finish_reason": "stop"}]}', "index 0"),
        (b'{"id": "r", "choices": [{"index": 0, "message": {"x": NaN}, "finish_reason": "stop"}]}', "not a completion"),
        (
            b'{"id": "r", "choices": [{"index": 0, "message": {}, "finish_reason": "stop", '
            b'"meta_info": {"output_token_logprobs": [[0]]}}]}',
            "is not \\[logprob, id",
        ),
    ],
)
def test_a_reply_of_another_shape_is_a_failed_check(body: bytes, says: str) -> None:
    with pytest.raises(VerificationError, match=says):
        ask(lambda request: httpx.Response(200, content=body))


def test_a_stream_must_say_that_it_is_one() -> None:
    with pytest.raises(VerificationError, match="expected 'text/event-stream'"):
        ask(lambda request: httpx.Response(200, json=GOOD), stream=True)


def test_a_delete_must_answer_204_and_a_create_an_id() -> None:
    async def run(handler: Handler, what: str) -> object:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://session") as http:
            client = SessionClient(http, "session-v1")
            return await (client.create() if what == "create" else client.delete("s1"))

    with pytest.raises(VerificationError, match=r"DELETE .* answered 200, expected 204"):
        asyncio.run(run(lambda request: httpx.Response(200), "delete"))
    with pytest.raises(VerificationError, match="no session_id"):
        asyncio.run(run(lambda request: httpx.Response(200, json={"id": "x"}), "create"))
    assert asyncio.run(run(lambda request: httpx.Response(200, json={"session_id": "x"}), "create")) == "x"


def test_health_is_read_strictly() -> None:
    async def run(body: object) -> object:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
        async with httpx.AsyncClient(transport=transport, base_url="http://session") as http:
            return await SessionClient(http, "session-v2").health()

    assert asyncio.run(run({"status": "ok"})).anthropic_intermediate_system_supported is None  # type: ignore[attr-defined]
    with pytest.raises(VerificationError, match="anthropic_intermediate_system_supported"):
        asyncio.run(run({"status": "ok", "anthropic_intermediate_system_supported": "yes"}))
