"""The texts of the conversation. One place, because the micro models are trained on exactly these sentences.

Nothing here decides when a text is said; that is the schedule's part.
"""

from __future__ import annotations

from typing import Final

from pydantic import JsonValue

SYSTEM: Final = (
    "You are a weather assistant. Use the get_weather tool whenever the user asks about the weather in a city. "
    "Answer one question at a time. Summarise only when you are asked to, and then put the summary inside "
    "<final_answer> tags."
)

TOOL_NAME: Final = "get_weather"

TOOL_DESCRIPTION: Final = "Get the current weather in a city."

TOOL_PARAMETERS: Final[dict[str, JsonValue]] = {
    "type": "object",
    "properties": {"location": {"type": "string", "description": "City name"}},
    "required": ["location"],
}

TOOL: Final[dict[str, JsonValue]] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": TOOL_DESCRIPTION,
        "parameters": TOOL_PARAMETERS,
        "strict": False,
    },
}
"""The OpenAI agent's tool. `strict` is said out loud, and stands in the prompt.

A session server makes tools strict that say nothing. The call of a strict tool is written by the engine's grammar in
its own spacing, also under automatic tool choice, and every sample would differ softly from the canonical render. The
OpenAI lanes show what the model itself writes; the forced turns of the Anthropic lane, whose tool says nothing, show
what the grammar writes.
"""

USER_FIRST: Final = "What's the weather in Beijing?"

TOOL_RESULTS: Final = (
    '{"temperature": 22, "condition": "sunny", "humidity": 40}',
    '{"temperature": 15, "condition": "cloudy", "humidity": 65}',
    '{"temperature": 8, "condition": "rainy", "humidity": 90}',
    '{"temperature": 30, "condition": "windy", "humidity": 30}',
)
"""Canned results, used in rotation. They name no city, so that each fits any call."""

USER_FOLLOWUPS: Final = (
    "Now check the weather in Shanghai.",
    "Now check the weather in Tokyo.",
    "Now check the weather in Paris.",
    "Now check the weather in London.",
)
"""Further questions, used in rotation."""

SYSTEM_REMINDER: Final = "Reminder: answer one question at a time and keep it short."

SENTINEL: Final = "No tool call was found in your last message. Call get_weather with the city to continue."

SENTINEL_ID: Final = "none"
"""`tool_call_id` of the sentinel tool message: no call has it."""

FORCE_FINAL: Final = "Give the final answer now: summarise all the weather you found, inside <final_answer> tags."

INJECTED_ASSISTANT: Final = (
    "I have looked at the weather reports so far.",
    "I can summarise them when you ask.",
)
"""Two assistant messages that no engine sampled."""

SUMMARY_REQUEST: Final = "Please summarise what you found, inside <final_answer> tags."

SERVICE_ERROR: Final = "service temporarily unavailable"
"""The third tool result of the Anthropic conversation."""
