"""The route table: every route, status and error body, on both cores."""

from __future__ import annotations

import re

import pytest
from session_testing.server import SYSTEM, USER, Client

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["v1", "v2"])
async def client(request: pytest.FixtureRequest, start):
    async with start(core_version=request.param) as running:
        yield running


async def test_health_names_the_process_and_its_limits(client: Client) -> None:
    response = await client.http.get("/health")
    document = response.json()
    assert document.pop("limits") == {
        "engine_timeout_seconds": 600.0,
        "max_body_bytes": 33554432,
        "max_sessions": 4096,
        "max_nodes_per_session": 1024,
        "session_idle_seconds": 3600.0,
    }
    assert document == {
        "status": "ok",
        "session_server_instance_id": "test-instance",
        "anthropic_intermediate_system_supported": True,
        "version": "0.1.0",
        "core_version": client.service.settings.core_version.value,
        "tito_model": "qwen3",
        "matcher": "strict",
        "sessions": 0,
    }


async def test_ready_is_a_generated_token_with_the_engines_version_and_model(client: Client) -> None:
    response = await client.http.get("/ready")
    assert response.status_code == 200
    assert response.json()["status"] == "ready"
    assert response.json()["engine"].items() >= {"version": "0.5.23", "model": "/models/scripted"}.items()


async def test_ready_says_no_while_the_engine_cannot_generate(client: Client) -> None:
    client.engine.generates = False
    response = await client.http.get("/ready")
    assert (response.status_code, response.json()) == (
        503,
        {"status": "not ready", "error": "a one-token generation was answered with 503: loading"},
    )
    assert (await client.http.get("/health")).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{}", b"not json", b"[1, 2]"])
async def test_creation_takes_any_body_and_gives_a_fresh_id(client: Client, body: bytes) -> None:
    response = await client.http.post("/sessions", content=body)
    assert response.status_code == 200
    assert list(response.json()) == ["session_id"]
    assert re.fullmatch("[0-9a-f]{32}", response.json()["session_id"])


async def test_a_fresh_session_is_empty(client: Client) -> None:
    session = await client.session()
    document = await client.view(session)
    assert (document["session_id"], document["records"]) == (session.removeprefix("/sessions/"), [])
    metadata = document["metadata"]
    tree = metadata.pop("tree", None)
    assert metadata == {"accumulated_token_ids": [], "max_trim_tokens": 0}
    if client.service.settings.core_version == "v2":
        assert tree == {"nodes": [], "leaves": []}
    else:
        assert tree is None


async def test_deletion_is_204_then_404(client: Client) -> None:
    session = await client.session()
    first, second = await client.http.delete(session), await client.http.delete(session)
    assert (first.status_code, first.content) == (204, b"")
    assert (second.status_code, second.json()) == (
        404,
        {"error": f"session not found: {session.removeprefix('/sessions/')}"},
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/v1/chat/completions"),
        ("POST", "/samples"),
        ("GET", "/v1/models"),
        ("POST", "/generate"),
        ("PATCH", "/anything"),
    ],
)
async def test_every_route_of_an_unknown_session_is_404(client: Client, method: str, path: str) -> None:
    response = await client.http.request(method, f"/sessions/nope{path}", content=b"{")
    assert (response.status_code, response.json()) == (404, {"error": "session not found: nope"})
    assert client.engine.paths == []


async def test_allowed_engine_paths_are_forwarded_with_the_routing_key(client: Client) -> None:
    session = await client.session()
    response = await client.http.get(f"{session}/v1/models", headers={"authorization": "Bearer x"})
    assert (response.status_code, response.json()["data"]) == (200, [{"id": "scripted"}])
    assert client.engine.headers[-1]["x-smg-routing-key"] == session.removeprefix("/sessions/")
    assert "authorization" not in client.engine.headers[-1]
    assert (await client.http.post(f"{session}/tokenize?a=1", json={})).status_code == 200
    assert client.engine.paths == ["POST /tokenize"]


@pytest.mark.parametrize(
    "path",
    ["generate", "flush_cache", "update_weights_from_disk", "v1/completions", "v1/chat/completions/x", "%2e%2e/x"],
)
async def test_other_engine_paths_are_not_reachable(client: Client, path: str) -> None:
    session = await client.session()
    response = await client.http.post(f"{session}/{path}", json={})
    assert response.status_code == 404
    assert client.engine.paths == [] and client.engine.requests == []


async def test_wrong_methods_are_405_with_allow(client: Client) -> None:
    session = await client.session()
    response = await client.http.post(f"{session}/v1/models")
    assert (response.status_code, response.headers["allow"]) == (405, "GET")
    response = await client.http.put("/health")
    assert (response.status_code, response.json()) == (405, {"detail": "Method Not Allowed"})
    assert response.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("", "DELETE, GET"),
        ("/samples", "POST"),
        ("/v1/chat/completions", "POST"),
        ("/v1/messages", "POST"),
        ("/v1/messages/count_tokens", "POST"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_served_path_names_all_its_methods(client: Client, path: str, allow: str, method: str) -> None:
    response = await client.http.request(method, f"{await client.session()}{path}")
    assert (response.status_code, response.json()) == (405, {"detail": "Method Not Allowed"})
    assert response.headers["allow"] == allow


@pytest.mark.parametrize("path", ["/", "/v1/chat/completions", "/nope"])
async def test_there_is_nothing_at_the_root(client: Client, path: str) -> None:
    response = await client.http.get(path)
    assert (response.status_code, response.json()) == (404, {"detail": "Not Found"})


async def test_bodies_beyond_the_limit_are_413(start) -> None:
    async with start(core_version="v1", max_body_bytes=2048) as client:
        session = await client.session()
        body = b'{"messages":[{"role":"user","content":"' + b"x" * 4096 + b'"}]}'
        response = await client.http.post(f"{session}/v1/chat/completions", content=body)
        assert (response.status_code, response.json()) == (413, {"detail": "the body is larger than 2048 bytes"})

        async def chunks():
            for _ in range(10):
                yield b"x" * 1024

        assert (await client.http.post(f"{session}/samples", content=chunks())).status_code == 413
        response = await client.http.post(f"{session}/v1/messages", content=chunks())
        assert (response.status_code, response.json()["error"]["type"]) == (413, "request_too_large")


async def test_the_session_limit_is_429_until_one_is_deleted(start) -> None:
    async with start(core_version="v1", max_sessions=1) as client:
        session = await client.session()
        response = await client.http.post("/sessions")
        assert (response.status_code, response.json()["error"]) == (
            429,
            "session limit reached: 1 sessions are alive; delete some or wait",
        )
        await client.http.delete(session)
        assert (await client.http.post("/sessions")).status_code == 200


async def test_every_answer_carries_a_request_id_and_keeps_a_plain_one(client: Client) -> None:
    fresh = await client.http.get("/health")
    assert re.fullmatch("[0-9a-f]{32}", fresh.headers["x-request-id"])
    kept = await client.http.get("/health", headers={"x-request-id": "abc-1.2_3"})
    assert kept.headers["x-request-id"] == "abc-1.2_3"
    refused = await client.http.get("/health", headers={"x-request-id": "a b\tc"})
    assert re.fullmatch("[0-9a-f]{32}", refused.headers["x-request-id"])


async def test_what_was_not_foreseen_is_a_json_500_with_the_request_id(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await client.session()

    def explode(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("session_server.wire.openai.parse_chat", explode)
    response = await client.chat(session, [USER])
    assert response.status_code == 500
    assert response.json() == {
        "error": f"internal error; see the server's log for request {response.headers['x-request-id']}"
    }


async def test_metrics_count_turns_tokens_and_sessions(client: Client) -> None:
    session = await client.session()
    await client.said(session, [SYSTEM, USER])
    await client.chat(session, [])
    response = await client.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    record = (await client.view(session))["records"][0]
    output = len(record["response"]["choices"][0]["meta_info"]["output_token_logprobs"])
    for line in (
        'session_server_turns_total{outcome="recorded"} 1.0',
        f"session_server_prompt_tokens_total {len(record['request']['input_ids'])}.0",
        f"session_server_completion_tokens_total {output}.0",
        "session_server_turn_seconds_count 1.0",
        "session_server_turns_in_flight 0.0",
        "session_server_sessions 1.0",
    ):
        assert line in response.text.splitlines()


async def test_the_openapi_document_has_every_route(client: Client) -> None:
    document = (await client.http.get("/openapi.json")).json()
    assert set(document["paths"]) == {
        "/health",
        "/ready",
        "/metrics",
        "/sessions",
        "/sessions/{session_id}",
        "/sessions/{session_id}/samples",
        "/sessions/{session_id}/v1/chat/completions",
        "/sessions/{session_id}/v1/messages",
        "/sessions/{session_id}/v1/messages/count_tokens",
    }
