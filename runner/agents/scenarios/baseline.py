"""The baseline: the whole schedule of the wire, as the two agents drive it."""

from __future__ import annotations

from runner.agents.anthropic import AnthropicAgent
from runner.agents.openai import OpenAIAgent
from runner.agents.scenarios.scene import Scene


async def openai(scene: Scene) -> None:
    """The OpenAI agent's schedule."""
    await OpenAIAgent(scene.client, scene.settings, scene.transcript, scene.emit, scene.on_attempt).drive()


async def anthropic(scene: Scene) -> None:
    """The Anthropic agent's three rounds."""
    reports = scene.transcript, scene.emit, scene.on_attempt
    await AnthropicAgent(scene.client, scene.health, scene.settings, *reports).drive()
