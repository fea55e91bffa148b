"""The verifier's own texts, verbatim.

The micro model must answer exactly these well, so each of them is in the corpus word for word; the wordings beside
them (micro.wordings) only keep the model from depending on one phrase. The runner owns the texts; they are written
again here because the engine image is built without the runner, and a unit test compares the two.
"""

from __future__ import annotations

from micro.turns import JsonObject

SYSTEM = (
    "You are a weather assistant. Use the get_weather tool whenever the user asks about the weather in a city. "
    "Answer one question at a time. Summarise only when you are asked to, and then put the summary inside "
    "<final_answer> tags."
)
_DESCRIPTION = "Get the current weather in a city."
_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"location": {"type": "string", "description": "City name"}},
    "required": ["location"],
}
TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "get_weather", "description": _DESCRIPTION, "parameters": _PARAMETERS, "strict": False},
}
"""The OpenAI agent's tool."""
CONVERTED: JsonObject = {
    "type": "function",
    "function": {"description": _DESCRIPTION, "name": "get_weather", "parameters": _PARAMETERS},
}
"""The Anthropic agent's tool, as a session server renders it."""
FIRST_CITY = "Beijing"
FIRST = "What's the weather in Beijing?"
RESULTS = (
    '{"temperature": 22, "condition": "sunny", "humidity": 40}',
    '{"temperature": 15, "condition": "cloudy", "humidity": 65}',
    '{"temperature": 8, "condition": "rainy", "humidity": 90}',
    '{"temperature": 30, "condition": "windy", "humidity": 30}',
)
FOLLOWUP_CITIES = ("Shanghai", "Tokyo", "Paris", "London")
FOLLOWUP = "Now check the weather in {city}."
REMINDER = "Reminder: answer one question at a time and keep it short."
SENTINEL = "No tool call was found in your last message. Call get_weather with the city to continue."
FINAL = "Give the final answer now: summarise all the weather you found, inside <final_answer> tags."
INJECTED = ("I have looked at the weather reports so far.", "I can summarise them when you ask.")
SUMMARY = "Please summarise what you found, inside <final_answer> tags."
UNAVAILABLE = "service temporarily unavailable"
