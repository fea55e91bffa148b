"""The Anthropic agent: three rounds of a forced tool turn and a text turn over the Messages wire.

Every request carries the whole history, and what the server returned is sent back unchanged, thinking included. A reply
that is incomplete or not what was forced is asked for again from the same parent; the rejected ones never become
history, they stay at the server as superseded leaves. Whether the tokens are right is not the agent's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import JsonValue

from runner.agents import script
from runner.agents.messages import STAGE, blocks_of
from runner.agents.records import Health, JsonObject, Reply
from runner.agents.session import SessionClient
from runner.agents.transcript import Transcript
from runner.agents.turns import DriveSettings, OnAttempt, Request, Turns
from runner.base.errors import ConfigurationError, ModelIncompleteError, VerificationError
from runner.base.events import Emit
from runner.base.terms import Role
from runner.plan.model import SystemExpectation

MAX_RETRIES = 8
"""Repeats of one turn from the same parent."""
MAX_TOKENS = 1024
"""The most that one turn asks for, whatever the family's budget."""
TEMPERATURE_LIMIT = 1.0

_TOOL: JsonObject = {
    "name": script.TOOL_NAME,
    "description": script.TOOL_DESCRIPTION,
    "input_schema": script.TOOL_PARAMETERS,
}
_FORCED: JsonObject = {"type": "tool", "name": script.TOOL_NAME}
_NONE: JsonObject = {"type": "none"}


class AnthropicEvent(StrEnum):
    """What an Anthropic conversation went through; the gate asks for these names."""

    SYSTEM = "anthropic_system"
    TOOL_USE = "anthropic_tool_use"
    RESULT_STRING = "anthropic_tool_result_string"
    RESULT_LIST = "anthropic_tool_result_list"
    TEXT = "anthropic_text"


class Step(StrEnum):
    """The two kinds of turns."""

    TOOL = "forced_tool"
    TEXT = "text"


class Cause(StrEnum):
    """Why a reply is asked for again."""

    MAX_TOKENS = "max_tokens"
    EMPTY = "empty"
    NO_FORCED_CALL = "no_forced_call"
    UNEXPECTED_CALL = "unexpected_call"
    STOP_REASON = "stop_reason"


_INCOMPLETE = frozenset({Cause.MAX_TOKENS, Cause.EMPTY})


@dataclass(frozen=True)
class Round:
    """One question and its answer, in the forms that this round has them in."""

    prompt: JsonValue
    result: JsonValue
    event: AnthropicEvent
    reminded: bool = False


def _text_block(text: str) -> list[JsonValue]:
    return [{"type": "text", "text": text}]


ROUNDS = (
    Round(script.USER_FIRST, script.TOOL_RESULTS[0], AnthropicEvent.RESULT_STRING),
    Round(script.USER_FOLLOWUPS[0], _text_block(script.TOOL_RESULTS[1]), AnthropicEvent.RESULT_LIST),
    Round(_text_block(script.USER_FOLLOWUPS[1]), script.SERVICE_ERROR, AnthropicEvent.RESULT_STRING, reminded=True),
)


def includes_system(health: Health, settings: DriveSettings) -> bool:
    """Whether this conversation has a system message in its middle, by route and family.

    Raises ConfigurationError for a family without an expectation, VerificationError when the route says nothing about
    it or the outcome is not the expected one.
    """
    expected = settings.intermediate_system
    if expected is None:
        raise ConfigurationError(
            [f"{settings.cell}: the family declares no expectation for system messages in the middle of a conversation"]
        )
    supported = health.anthropic_intermediate_system_supported
    if supported is None:
        raise VerificationError(
            "capability", "GET /health does not say anthropic_intermediate_system_supported (true or false is expected)"
        )
    included = supported and Role.SYSTEM in settings.append_roles
    if included != (expected is SystemExpectation.REQUIRED):
        allowed = "may" if Role.SYSTEM in settings.append_roles else "may not"
        raise VerificationError(
            "capability",
            f"system messages in the middle of a conversation are {expected} for this family, but the route says "
            f"supported={supported} and the family {allowed} append 'system'",
        )
    return included


class AnthropicAgent:
    """Drives one session. `transcript` is filled as it goes, so that it is there when something raises."""

    def __init__(
        self,
        client: SessionClient,
        health: Health,
        settings: DriveSettings,
        transcript: Transcript,
        emit: Emit,
        on_attempt: OnAttempt,
    ) -> None:
        self._client = client
        self._health = health
        self._settings = settings
        self._transcript = transcript
        self._turns = Turns(settings, transcript, emit, on_attempt, MAX_RETRIES)
        self._history: list[JsonObject] = []

    async def drive(self) -> None:
        """The six turns of the session `transcript.session_id`.

        Raises ConfigurationError or VerificationError(stage `capability`) before the first request,
        ModelIncompleteError when the model does not finish, VerificationError for what cannot be right,
        InfrastructureError when something underneath broke.
        """
        reminds = includes_system(self._health, self._settings)
        self._transcript.tools = [_TOOL]
        for round_ in ROUNDS:
            if round_.reminded and reminds:
                self._history.append({"role": "system", "content": script.SYSTEM_REMINDER})
                self._note(AnthropicEvent.SYSTEM)
            self._history.append({"role": "user", "content": round_.prompt})
            call = await self._turn(Step.TOOL, _FORCED)
            self._note(AnthropicEvent.TOOL_USE)
            identity = blocks_of(call, "tool_use")[0]["id"]
            result: JsonObject = {"type": "tool_result", "tool_use_id": identity, "content": round_.result}
            self._history.append({"role": "user", "content": [result]})
            self._note(round_.event)
            await self._turn(Step.TEXT, _NONE)
            self._note(AnthropicEvent.TEXT)

    def _note(self, event: AnthropicEvent) -> None:
        self._transcript.driver_events.append(event.value)

    async def _turn(self, step: Step, choice: JsonObject) -> JsonObject:
        number = self._turns.next
        history: list[JsonValue] = list(self._history)
        body: JsonObject = {
            "model": self._settings.model,
            "max_tokens": min(self._settings.max_tokens, MAX_TOKENS),
            "system": script.SYSTEM,
            "messages": history,
            "tools": [_TOOL],
            "tool_choice": choice,
            "temperature": min(self._settings.temperature, TEMPERATURE_LIMIT),
            "stream": self._settings.stream,
        }

        async def ask(retry: int) -> Reply:
            return await self._client.message(self._transcript.session_id, body, self._settings.turn_timeout)

        message = await self._turns.take(
            Request(
                action=step.value,
                parent=number - 1 if number > 1 else None,
                messages=[{"role": "system", "content": script.SYSTEM}, *self._history],
                ask=ask,
                seed=lambda retry: None,
                rejects=rejects_call if step is Step.TOOL else rejects_text,
                check=lambda reply: reply.message,
                exhausted=lambda cause: exhausted(number, Cause(cause)),
            )
        )
        self._history.append(message)
        return message


def rejects_call(reply: Reply) -> str | None:
    """Why this is not the forced call: exactly one call of the tool, with an object as input."""
    if reply.finish_reason == "max_tokens":
        return Cause.MAX_TOKENS.value
    calls = blocks_of(reply.message, "tool_use")
    if len(calls) != 1 or calls[0].get("name") != script.TOOL_NAME or not isinstance(calls[0].get("input"), dict):
        return Cause.NO_FORCED_CALL.value
    return None if reply.finish_reason == "tool_use" else Cause.STOP_REASON.value


def rejects_text(reply: Reply) -> str | None:
    """Why this is not a text turn: some text, no call, ended by itself."""
    if reply.finish_reason == "max_tokens":
        return Cause.MAX_TOKENS.value
    if blocks_of(reply.message, "tool_use"):
        return Cause.UNEXPECTED_CALL.value
    if not any(str(block.get("text")).strip() for block in blocks_of(reply.message, "text")):
        return Cause.EMPTY.value
    return None if reply.finish_reason == "end_turn" else Cause.STOP_REASON.value


def exhausted(turn: int, cause: Cause) -> VerificationError:
    """The error for a turn that was asked for again in vain."""
    message = f"turn {turn}: exhausted {MAX_RETRIES} retries after {cause}"
    return ModelIncompleteError(STAGE, message) if cause in _INCOMPLETE else VerificationError(STAGE, message)
