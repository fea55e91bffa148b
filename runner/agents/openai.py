"""The OpenAI agent: one conversation over chat completions, along the whole schedule.

Every request carries the whole history, as clients of this API do. Replies become history exactly as they came. The
agent raises when it cannot go on: the model does not finish, a reply has no usable shape, a tool call is missing too
often. Whether the tokens are right is not its business.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from runner.agents import script
from runner.agents.records import JsonObject, Reply
from runner.agents.reply import checked_message, exhausted, shown, unfinished
from runner.agents.schedule import Action, DriverEvent, schedule
from runner.agents.session import SessionClient
from runner.agents.transcript import Transcript
from runner.agents.turns import DriveSettings, OnAttempt, Request, Turns
from runner.base.errors import VerificationError
from runner.base.events import Emit
from runner.base.terms import Role
from runner.plan.model import FailureMode

MAX_RETRIES = 2
"""Repeats of one turn from the same parent."""
RETRY_SEED_STRIDE = 1_000_000
"""Added to the seed for each repeat, so that the sample differs."""
MAX_FAILED_TOOL_STEPS = 3
"""`tool_result` steps in a row that may find no tool call and be answered by a rollback."""


@dataclass(frozen=True)
class _Said:
    """One message of the history. `turn` is the turn that sampled it, None for what the agent wrote itself."""

    message: JsonObject
    turn: int | None = None


class OpenAIAgent:
    """Drives one session. `transcript` is filled as it goes, so that it is there when something raises."""

    def __init__(
        self,
        client: SessionClient,
        settings: DriveSettings,
        transcript: Transcript,
        emit: Emit,
        on_attempt: OnAttempt,
    ) -> None:
        self._client = client
        self._settings = settings
        self._transcript = transcript
        self._turns = Turns(settings, transcript, emit, on_attempt, MAX_RETRIES)
        self._history: list[_Said] = []
        self._results = 0
        self._followups = 0
        self._failed_tool_steps = 0

    async def drive(self) -> None:
        """The whole conversation of the session `transcript.session_id`.

        Raises ConfigurationError before the first request, ModelIncompleteError when the model does not finish,
        VerificationError for what cannot be right, InfrastructureError when something underneath broke.
        """
        settings = self._settings
        actions = schedule(settings.append_roles, settings.cycles, settings.failure_mode)
        self._transcript.tools = [script.TOOL]
        self._say({"role": "system", "content": script.SYSTEM})
        self._say({"role": "user", "content": script.USER_FIRST})
        await self._turn(Action.START)
        for action in actions:
            self._act(action)
            await self._turn(action)

    def _act(self, action: Action) -> None:
        match action:
            case Action.TOOL_RESULT:
                self._answer_calls()
            case Action.USER_FOLLOWUP:
                text = script.USER_FOLLOWUPS[self._followups % len(script.USER_FOLLOWUPS)]
                self._followups += 1
                self._append(Role.USER, text, DriverEvent.APPEND_USER)
            case Action.SYSTEM_REMINDER:
                self._append(Role.SYSTEM, script.SYSTEM_REMINDER, DriverEvent.APPEND_SYSTEM)
            case Action.ROLLBACK:
                self._drop_reply(DriverEvent.ROLLBACK)
            case Action.FORCE_FINAL:
                self._append(Role.USER, script.FORCE_FINAL, DriverEvent.FORCE_FINAL)
            case Action.ASSISTANT_INPUT:
                for text in script.INJECTED_ASSISTANT:
                    self._say({"role": "assistant", "content": text})
                self._append(Role.USER, script.SUMMARY_REQUEST, DriverEvent.APPEND_ASSISTANT)
            case Action.START:
                raise ValueError("start is the first request, not a step of the schedule")

    def _say(self, message: JsonObject, turn: int | None = None) -> None:
        self._history.append(_Said(message, turn))

    def _append(self, role: Role, text: str, event: DriverEvent) -> None:
        self._say({"role": role.value, "content": text})
        self._transcript.driver_events.append(event.value)

    def _drop_reply(self, event: DriverEvent) -> None:
        last = self._history.pop()
        if last.turn is None:
            raise ValueError("a rollback drops a sampled assistant message, and the last message is none")
        self._transcript.driver_events.append(event.value)

    def _answer_calls(self) -> None:
        calls = self._history[-1].message.get("tool_calls")
        if isinstance(calls, list) and calls:
            self._failed_tool_steps = 0
            for call in calls:
                identity = call["id"] if isinstance(call, dict) else None
                result = script.TOOL_RESULTS[self._results % len(script.TOOL_RESULTS)]
                self._results += 1
                self._say({"role": "tool", "tool_call_id": identity, "content": result})
            self._transcript.driver_events.append(DriverEvent.APPEND_TOOL.value)
            return
        match self._settings.failure_mode:
            case FailureMode.APPEND_TOOL:
                self._say({"role": "tool", "tool_call_id": script.SENTINEL_ID, "content": script.SENTINEL})
                self._transcript.driver_events.append(DriverEvent.FAILURE_APPEND_TOOL.value)
            case FailureMode.APPEND_USER:
                self._append(Role.USER, script.SENTINEL, DriverEvent.FAILURE_APPEND_USER)
            case FailureMode.ROLLBACK:
                self._failed_tool_steps += 1
                if self._failed_tool_steps > MAX_FAILED_TOOL_STEPS:
                    raise VerificationError(
                        "tool-call",
                        f"{self._failed_tool_steps} tool_result steps in a row found no tool call, although the reply "
                        f"was rolled back after each. Likely causes: the tool-call parser does not match the model, "
                        f"the chat template does not show the tools, or the model does not call tools. Last reply: "
                        f"{shown(self._history[-1].message)}",
                    )
                self._drop_reply(DriverEvent.FAILURE_ROLLBACK)

    async def _turn(self, action: Action) -> None:
        number = self._turns.next
        messages = [said.message for said in self._history]
        settings = self._settings

        async def ask(retry: int) -> Reply:
            body = self._body(messages, seed(retry))
            return await self._client.complete(self._transcript.session_id, body, settings.turn_timeout)

        def seed(retry: int) -> int:
            return settings.seed + retry * RETRY_SEED_STRIDE

        request = Request(
            action=action.value,
            parent=next((said.turn for said in reversed(self._history) if said.turn is not None), None),
            messages=messages,
            ask=ask,
            seed=seed,
            rejects=unfinished,
            check=checked_message,
            exhausted=lambda cause: exhausted(f"turn {number}", MAX_RETRIES, cause),
        )
        self._say(await self._turns.take(request), number)

    def _body(self, messages: list[JsonObject], seed: int) -> JsonObject:
        history: list[JsonValue] = list(messages)
        body: JsonObject = {
            "model": self._settings.model,
            "messages": history,
            "tools": [script.TOOL],
            "temperature": self._settings.temperature,
            "max_tokens": self._settings.max_tokens,
            "seed": seed,
            "stream": self._settings.stream,
        }
        if self._settings.stream:
            body["stream_options"] = {"include_usage": True}
        return body
