"""A server under test in this process: the real application, the scripted engine behind it, no sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from session_server.app.build import build
from session_server.app.service import Service
from session_server.engine.pool import Answer
from session_server.settings import Settings
from session_server.tito.families import find
from session_server.tito.loading import bind
from session_server.tito.vocabulary import Vocabulary
from starlette.applications import Starlette

from session_testing.engine import ScriptedEngine

SYSTEM = {"role": "system", "content": "You are a weather assistant."}
USER = {"role": "user", "content": "What is the weather in Beijing?"}
MORE = {"role": "user", "content": "Now check the weather in Shanghai."}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
    },
}


def make_settings(tokenizer_path: Path, **fields: Any) -> Settings:
    """Settings for a test; `fields` replace the defaults."""
    values: dict[str, Any] = {
        "engine_url": "http://engine:30000",
        "core_version": "v1",
        "tokenizer_path": tokenizer_path,
        "tito_model": "qwen3",
        "instance_id": "test-instance",
    }
    return Settings(**(values | fields))


@dataclass
class Client:
    """What a test talks to."""

    http: httpx.AsyncClient
    engine: ScriptedEngine
    app: FastAPI

    @property
    def service(self) -> Service:
        """The application's parts."""
        service: Service = self.app.state.service
        return service

    async def session(self) -> str:
        """Create a session; returns its path."""
        response = await self.http.post("/sessions")
        assert response.status_code == 200
        return f"/sessions/{response.json()['session_id']}"

    async def chat(self, session: str, messages: list[dict[str, Any]], **fields: Any) -> httpx.Response:
        """Send one chat request."""
        body = {"model": "scripted", "messages": messages, **fields}
        return await self.http.post(f"{session}/v1/chat/completions", json=body)

    async def said(self, session: str, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Send one chat request that must succeed; returns the assistant message."""
        response = await self.chat(session, messages, **fields)
        assert response.status_code == 200, response.text
        message: dict[str, Any] = response.json()["choices"][0]["message"]
        return message

    async def view(self, session: str) -> dict[str, Any]:
        """The session document."""
        response = await self.http.get(session)
        assert response.status_code == 200, response.text
        document: dict[str, Any] = response.json()
        return document

    async def snapshot(self, session: str) -> bytes:
        """Everything the server shows of a session, as bytes."""
        response = await self.http.get(session)
        return response.content


class InProcess:
    """Carries exchanges to an ASGI application of this process."""

    def __init__(self, app: Starlette) -> None:
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://engine")

    async def send(
        self,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        content: Sequence[bytes],
        *,
        timeout_seconds: float,
    ) -> Answer:
        """One exchange."""
        response = await self._client.request(method, path, headers=list(headers), content=b"".join(content))
        return Answer(response.status_code, dict(response.headers), response.content)

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()


@asynccontextmanager
async def serving(settings: Settings, vocabulary: Vocabulary) -> AsyncIterator[Client]:
    """The application with a scripted engine behind it."""
    engine = ScriptedEngine(vocabulary)
    codec = bind(find(settings.tito_model), vocabulary, settings)
    app = build(settings, codec, transport=InProcess(engine.app))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://session") as http,
    ):
        yield Client(http, engine, app)
