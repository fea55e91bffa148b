"""Other ways to say what the verifier says, and the closed lists of values.

Every list of client wordings has two parts: `taught` ones are in the corpus, `held` ones only in the evaluation, where
they show that the model answers the kind of a message and not one sentence. Cities are a closed list: a model of this
size copies names it has seen and is not reliable with others.
"""

from __future__ import annotations

from dataclasses import dataclass

from micro import script
from micro.turns import JsonObject


@dataclass(frozen=True)
class Wordings:
    """Client wordings of one kind; `{city}` is filled in."""

    taught: tuple[str, ...]
    held: tuple[str, ...]


CITIES = (
    "Beijing", "Shanghai", "Tokyo", "Paris", "London", "Berlin", "Madrid", "Rome", "Oslo", "Vienna",
    "Prague", "Warsaw", "Lisbon", "Dublin", "Athens", "Cairo", "Nairobi", "Lagos", "Delhi", "Mumbai",
    "Seoul", "Osaka", "Bangkok", "Hanoi", "Jakarta", "Manila", "Sydney", "Perth", "Toronto", "Chicago",
    "Boston", "Seattle", "Denver", "Miami", "Lima", "Bogota", "Santiago", "Moscow", "Kyiv", "Helsinki",
)  # fmt: skip
CONDITIONS = ("sunny", "cloudy", "rainy", "windy", "snowy", "foggy", "stormy", "clear")
TEMPERATURES = range(40)
HUMIDITIES = range(20, 100)

SYSTEMS = Wordings(
    taught=(
        "You are a helpful weather assistant. Call get_weather for every city the user asks about.",
        "You answer questions about the weather. Always use the get_weather tool, never guess. Put a summary inside "
        "<final_answer> tags, and only when you are asked for it.",
        "You are a weather assistant.",
    ),
    held=("You are a careful weather assistant. Use get_weather for each city and answer one question at a time.",),
)
QUESTIONS = Wordings(
    taught=(
        script.FIRST.replace(script.FIRST_CITY, "{city}"),
        script.FOLLOWUP,
        "What is the weather in {city}?",
        "What is the weather like in {city} today?",
        "How is the weather in {city}?",
        "Tell me the weather in {city}.",
        "Please check the weather in {city}.",
        "Now check {city}.",
        "And in {city}?",
        "What about {city}?",
        "Is it raining in {city}?",
        "I am going to {city}. What is the weather there?",
        "How warm is it in {city} right now?",
        "Can you look up the weather for {city}?",
        "{city}, please.",
        "Next, the weather in {city}.",
        "For {city}, what is the weather?",
        "I need the current weather of {city}.",
    ),
    held=(
        "What's the weather like in {city} now?",
        "Please tell me the weather in {city}.",
        "Now look up the weather in {city}.",
        "And what about {city}?",
        "How warm is it in {city} today?",
        "Can you check the weather for {city}?",
        "I am in {city}. What is the weather?",
    ),
)
REMINDERS = Wordings(
    taught=(
        script.REMINDER,
        "Reminder: keep your answers short.",
        "Reminder: use the tool for every city.",
        "Note: answer one question at a time.",
        "Please remember to keep it short.",
        "System note: stay brief and polite.",
        "Remember: summarise only when you are asked to.",
        "Reminder: do not guess the weather.",
    ),
    held=(
        "Reminder: keep it short and answer one question at a time.",
        "Note: keep your answers short.",
        "Remember: do not guess.",
    ),
)
SENTINELS = Wordings(
    taught=(
        script.SENTINEL,
        "No tool call was made. Call get_weather to continue.",
        "No tool call was found. Please call get_weather with the city.",
        "There was no tool call in your last message. Call the tool to continue.",
    ),
    held=("No tool call was found in your message. Please call get_weather to continue.",),
)
SUMMARIES = Wordings(
    taught=(
        script.FINAL,
        script.SUMMARY,
        "Please give the final answer inside <final_answer> tags.",
        "Summarise the weather now, inside <final_answer> tags.",
        "Give me the summary in <final_answer> tags.",
        "Now write the final answer, inside <final_answer> tags.",
    ),
    held=("Please summarise all the weather you found, inside <final_answer> tags.",),
)
FAILURES = Wordings(
    taught=(
        script.UNAVAILABLE,
        "service unavailable",
        "error: service temporarily unavailable",
        "The service is temporarily unavailable.",
        "request timed out",
        "error: no data for this city",
        "Error: the request timed out.",
        "Error 503: the service is down.",
        "The weather service is down.",
        "The service did not answer, try again later.",
        "upstream error",
        "Sorry, the service is not available at the moment.",
        "temporarily out of service",
        '{"error": "service temporarily unavailable"}',
    ),
    held=("Error: the service is temporarily unavailable.",),
)
CHATS = Wordings(
    taught=("Hello!", "Hi there.", "Thank you.", "Thanks, that is all.", "Who are you?", "Good morning.", "Hello"),
    held=("Hello there.",),
)
INJECTED = (
    *script.INJECTED,
    "I have checked the reports.",
    "I am ready to summarise.",
    "Here is what I did so far.",
    "I will look it up.",
    "One moment, please.",
)

# The model's own words. Few of them: each choice costs certainty at temperature 0.7, and two are enough to make the
# answers to one prompt differ.
CALL_THOUGHTS = (
    "The user asks about {city}. I call get_weather.",
    "The user asks about {city}. The tool knows the weather.",
)
SENTINEL_THOUGHTS = ("No call was found. The user asks about {city}. I call get_weather.",)
REPORT_THOUGHTS = (
    "The report for {city} is {condition}. I answer.",
    "The report for {city} says {condition}. I tell the user.",
)
REPORTS = (
    "It is {condition} in {city}, {temperature} degrees.",
    "The weather in {city} is {condition}, {temperature} degrees.",
)
FAILURE_THOUGHTS = ("The tool failed for {city}, so I tell the user.",)
# No sentence of a text ends with the city as the thought of a call does: the copy heads would go on with the call.
FAILURE_REPLIES = (
    "The weather service for {city} is unavailable now.",
    "Sorry, the weather service for {city} is unavailable now.",
)
NOTE_THOUGHTS = ("This is only a reminder. No call is needed.",)
NOTES = (
    "Understood. I will keep that in mind.",
    "Understood. I answer one question at a time.",
)
SUMMARY_THOUGHTS = ("A summary is due. The last city is {city}.",)
SUMMARY_REPLIES = (
    "<final_answer>The last report is for {city}: {condition}, {temperature} degrees.</final_answer>",
    "<final_answer>Last report: {city} is {condition}, {temperature} degrees.</final_answer>",
)
EMPTY_SUMMARY_THOUGHTS = ("A summary is due. There is no report for {city}.",)
EMPTY_SUMMARIES = ("<final_answer>There is no report for {city}.</final_answer>",)
CHAT_THOUGHTS = ("No city is named. I stay polite.",)
CHAT_REPLIES = (
    "Hello. I can tell you the weather in a city.",
    "I am a weather assistant. Which city do you want?",
)


def tools() -> tuple[JsonObject, ...]:
    """Declarations of `get_weather` as clients and servers write them, the verifier's two first."""
    function, converted = _function(script.TOOL), _function(script.CONVERTED)
    plain: JsonObject = {key: value for key, value in function.items() if key != "strict"}
    bare: JsonObject = {
        "name": "get_weather",
        "description": "Look up the weather.",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
    }
    forms = (
        function,
        converted,
        plain,
        {**function, "strict": True},
        {**converted, "strict": False, "defer_loading": None},
        bare,
    )
    return tuple({"type": "function", "function": form} for form in forms)


def strict(tool: JsonObject) -> JsonObject:
    """The same declaration with `strict: true`."""
    return {**tool, "function": {**_function(tool), "strict": True}}


def is_strict(tool: JsonObject) -> bool:
    """Whether a declaration asks for `strict`."""
    return _function(tool).get("strict") is True


def _function(tool: JsonObject) -> JsonObject:
    function = tool["function"]
    if not isinstance(function, dict):
        raise TypeError(f"a tool without a function object: {tool!r}")
    return function
