"""Whatever a client sends: no 5xx, no hang, and the session afterwards is what it was or one turn longer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import orjson
import pytest
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from session_server.tito.vocabulary import Vocabulary
from session_testing.server import USER, Client, make_settings, serving


class Driver:
    """A server that synchronous tests can talk to."""

    def __init__(self, path: Path, vocabulary: Vocabulary, version: str) -> None:
        self.loop = asyncio.new_event_loop()
        settings = make_settings(path, core_version=version, max_nodes_per_session=20, max_sessions=100_000)
        self.context = serving(settings, vocabulary)
        self.client: Client = self.run(self.context.__aenter__())
        self.session: str = self.run(self.client.session())

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 20))

    def records(self) -> int:
        return len(self.run(self.client.view(self.session))["records"])

    def close(self) -> None:
        self.run(self.context.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module", params=["v1", "v2"])
def driver(request: pytest.FixtureRequest, qwen_path: Path, qwen: Vocabulary) -> Iterator[Driver]:
    made = Driver(qwen_path, qwen, request.param)
    yield made
    made.close()


def operations(driver: Driver) -> list[Any]:
    document = driver.run(driver.client.http.get("/openapi.json")).json()
    schema = schemathesis.openapi.from_dict(document)
    return [result.ok() for result in schema.get_all_operations()]


def test_no_request_that_the_openapi_document_describes_gives_a_5xx(driver: Driver) -> None:
    found = operations(driver)
    assert len(found) == 10
    for operation in found:
        run_operation(driver, operation)


def run_operation(driver: Driver, operation: Any) -> None:
    negative = schemathesis.GenerationMode.NEGATIVE
    for mode in (schemathesis.GenerationMode.POSITIVE, negative):
        try:
            cases = operation.as_strategy(generation_mode=mode)
        except Exception as error:
            assert mode is negative, error
            continue

        @hypothesis.settings(max_examples=25, database=None)
        @given(case=cases)
        def once(case: Any) -> None:
            path = operation.path
            if "{session_id}" in path:
                if operation.method.upper() == "DELETE":
                    driver.session = driver.run(driver.client.session())
                path = path.replace("{session_id}", driver.session.removeprefix("/sessions/"))
            body = case.body
            raw = b"" if isinstance(body, schemathesis.core.NotSet) else as_json(body)
            if raw is None:
                return
            query = {key: value for key, value in (case.query or {}).items() if isinstance(value, str)}
            response = driver.run(
                driver.client.http.request(
                    operation.method.upper(),
                    path,
                    content=raw,
                    params=query,
                    headers={"content-type": "application/json"},
                )
            )
            assert response.status_code < 500, (response.status_code, response.text, raw[:500])
            if operation.method.upper() == "DELETE":
                driver.session = driver.run(driver.client.session())

        try:
            once()
        except hypothesis.errors.Unsatisfiable:
            assert mode is negative


def as_json(body: Any) -> bytes | None:
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError):
        return body if isinstance(body, bytes) else None


ROUTES = ["v1/chat/completions", "v1/messages", "v1/messages/count_tokens", "samples"]
VALID = {
    "v1/chat/completions": {"model": "m", "messages": [USER], "tools": [], "max_tokens": 5},
    "v1/messages": {"model": "m", "messages": [USER], "max_tokens": 5, "system": "x", "tools": []},
    "v1/messages/count_tokens": {"model": "m", "messages": [USER]},
    "samples": {"max_seq_len": 5, "metadata": {}},
}
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["type", "text", "role", "content", "name", "id", "input", "function", "tool_use_id"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("route", ROUTES)
def test_any_bytes_are_answered_without_a_5xx(driver: Driver, route: str) -> None:
    valid = orjson.dumps(VALID[route])

    @hypothesis.settings(max_examples=60, database=None)
    @given(st.binary(max_size=200), st.integers(0, len(valid)), st.integers(0, len(valid)))
    def once(noise: bytes, start: int, end: int) -> None:
        send(driver, route, valid[:start] + noise + valid[end:])

    once()


@pytest.mark.parametrize("route", ROUTES)
def test_any_value_in_any_field_is_answered_without_a_5xx(driver: Driver, route: str) -> None:
    fields = [
        *VALID[route],
        "tool_choice",
        "stop_sequences",
        "thinking",
        "betas",
        "chat_template_kwargs",
        "n",
        "stream",
    ]

    @hypothesis.settings(max_examples=120, database=None)
    @given(st.sampled_from(fields), JSON)
    def once(field: str, value: Any) -> None:
        send(driver, route, json.dumps({**VALID[route], field: value}).encode())

    once()


@pytest.mark.parametrize("route", ROUTES[:3])
def test_any_message_is_answered_without_a_5xx(driver: Driver, route: str) -> None:
    roles = st.sampled_from(["user", "assistant", "system", "tool"])
    blocks = st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "image", "tool_use", "tool_result", "thinking", "x"])},
            optional={"text": JSON, "input": JSON, "id": JSON, "name": JSON, "content": JSON, "tool_use_id": JSON},
        ),
        max_size=3,
    )
    message = st.fixed_dictionaries(
        {"role": roles, "content": st.one_of(st.text(max_size=20), blocks, JSON)},
        optional={"tool_calls": JSON, "reasoning_content": JSON, "tool_call_id": JSON, "name": JSON},
    )

    @hypothesis.settings(max_examples=150, database=None)
    @given(st.lists(message, min_size=1, max_size=4))
    def once(messages: list[dict[str, Any]]) -> None:
        send(driver, route, json.dumps({**VALID[route], "messages": messages}).encode())

    once()


def send(driver: Driver, route: str, raw: bytes) -> None:
    before = driver.records()
    response = driver.run(driver.client.http.post(f"{driver.session}/{route}", content=raw))
    assert response.status_code < 500, (response.status_code, response.text, raw)
    if response.status_code != 200 or route not in ROUTES[:2]:
        assert driver.records() == before
    if driver.records() >= 15:
        driver.session = driver.run(driver.client.session())
