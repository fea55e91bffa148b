"""The corpus and the runner speak of the same sentences."""

from __future__ import annotations

from micro import script as taught

from runner.agents import script


def test_the_model_is_trained_on_the_texts_that_the_runner_sends() -> None:
    assert taught.SYSTEM == script.SYSTEM
    assert taught.TOOL == script.TOOL
    assert taught.CONVERTED["function"] == {
        "name": script.TOOL_NAME,
        "description": script.TOOL_DESCRIPTION,
        "parameters": script.TOOL_PARAMETERS,
    }
    assert taught.FIRST == script.USER_FIRST
    assert taught.RESULTS == script.TOOL_RESULTS
    assert tuple(taught.FOLLOWUP.format(city=city) for city in taught.FOLLOWUP_CITIES) == script.USER_FOLLOWUPS
    assert taught.REMINDER == script.SYSTEM_REMINDER
    assert taught.SENTINEL == script.SENTINEL
    assert taught.FINAL == script.FORCE_FINAL
    assert taught.INJECTED == script.INJECTED_ASSISTANT
    assert taught.SUMMARY == script.SUMMARY_REQUEST
    assert taught.UNAVAILABLE == script.SERVICE_ERROR
