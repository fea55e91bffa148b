"""The Anthropic dialect as a test speaks it."""

from __future__ import annotations

from typing import Any

import httpx

from session_testing.server import Client

ASK = {"role": "user", "content": "What is the weather in Beijing?"}
TOOL = {
    "name": "get_weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"location": {"type": "string"}}},
}


async def send(client: Client, session: str, messages: list[dict[str, Any]], **fields: Any) -> httpx.Response:
    """Ask for a turn of `session`."""
    body = {"model": "m", "max_tokens": 64, "messages": messages, **fields}
    return await client.http.post(f"{session}/v1/messages", json=body)


async def sent(client: Client, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """The chat request that the engine got for a message request in a fresh session."""
    session = await client.session()
    response = await send(client, session, messages, **fields)
    assert response.status_code == 200, response.text
    return client.engine.requests[-1]
