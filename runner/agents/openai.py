"""The OpenAI agent: one conversation over chat completions, along the whole schedule.

Every request carries the whole history, as clients of this API do. Replies become history exactly as they came. The
agent raises when it cannot go on: the model does not finish, a reply has no usable shape, a tool call is missing too
often. Whether the tokens are right is not its business.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import JsonValue
from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt

from runner.agents import script
from runner.agents.records import JsonObject
from runner.agents.reply import checked_message, exhausted, shown, unfinished
from runner.agents.schedule import Action, DriverEvent, schedule
from runner.agents.session import Reply, SessionClient
from runner.agents.transcript import Rejected, Transcript, TurnLog
from runner.base.errors import VerificationError
from runner.base.events import Emit, RetryEvent, TurnDone
from runner.base.terms import CellId, Role
from runner.plan.model import FailureMode, PlannedCell, PlannedSample

MAX_RETRIES = 2
"""Repeats of one turn from the same parent."""
RETRY_SEED_STRIDE = 1_000_000
"""Added to the seed for each repeat, so that the sample differs."""
MAX_FAILED_TOOL_STEPS = 3
"""`tool_result` steps in a row that may find no tool call and be answered by a rollback."""


@dataclass(frozen=True)
class Attempt:
    """A request that is about to be made again: `attempt` is 1 for the first repeat, `seed` the one it will carry."""

    turn: int
    attempt: int
    cause: str
    seed: int | None
    finish_reason: str | None


OnAttempt = Callable[[Attempt], None]


@dataclass(frozen=True)
class DriveSettings:
    """What one sample needs to be driven. `turn_timeout` in seconds, `max_tokens` in tokens."""

    cell: CellId
    sample: int
    seed: int
    stream: bool
    model: str
    cycles: int
    append_roles: tuple[Role, ...]
    failure_mode: FailureMode
    temperature: float
    max_tokens: int
    turn_timeout: float

    @classmethod
    def of(cls, cell: PlannedCell, sample: PlannedSample, model: str) -> DriveSettings:
        """From the plan."""
        return cls(
            cell=cell.id,
            sample=sample.index,
            seed=sample.seed,
            stream=sample.stream,
            model=model,
            cycles=cell.cycles,
            append_roles=tuple(cell.append_roles),
            failure_mode=cell.failure_mode,
            temperature=cell.temperature,
            max_tokens=cell.max_tokens,
            turn_timeout=cell.turn_timeout,
        )


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
        self._emit = emit
        self._on_attempt = on_attempt
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
        number = len(self._transcript.turns) + 1
        messages = [said.message for said in self._history]
        parent = next((said.turn for said in reversed(self._history) if said.turn is not None), None)
        started = time.monotonic()
        reply, seed = await self._finished_reply(number, messages)
        message = checked_message(reply)
        usage = reply.usage
        if usage is None:
            raise VerificationError("usage", f"turn {number}: the reply {reply.id!r} carries no usage")
        self._say(message, number)
        log = TurnLog(
            turn=number,
            action=action.value,
            parent=parent,
            messages=messages,
            reply=message,
            response_id=reply.id,
            finish_reason=reply.finish_reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=time.monotonic() - started,
            seed=seed,
            output_ids=reply.output_ids,
            rejected=list(self._transcript.unfinished),
        )
        self._transcript.unfinished.clear()
        self._transcript.turns.append(log)
        self._emit(
            TurnDone(
                cell=str(self._settings.cell),
                sample=self._settings.sample,
                turn=number,
                action=action.value,
                finish_reason=log.finish_reason,
                prompt_tokens=log.prompt_tokens,
                completion_tokens=log.completion_tokens,
                seconds=log.seconds,
            )
        )

    async def _finished_reply(self, turn: int, messages: list[JsonObject]) -> tuple[Reply, int]:
        """Ask until the model finishes, at most `MAX_RETRIES` times again from the same parent: reply and its seed."""
        rejected = self._transcript.unfinished

        def seed(retry: int) -> int:
            return self._settings.seed + retry * RETRY_SEED_STRIDE

        async def ask() -> tuple[Reply, int] | None:
            used = seed(len(rejected))
            reply = await self._client.complete(
                self._transcript.session_id, self._body(messages, used), self._settings.turn_timeout
            )
            cause = unfinished(reply)
            if cause is None:
                return reply, used
            rejected.append(Rejected(cause, reply.finish_reason, used, reply.id, reply.message))
            return None

        def again(state: RetryCallState) -> None:
            last, retry = rejected[-1], state.attempt_number
            self._on_attempt(Attempt(turn, retry, last.cause, seed(retry), last.finish_reason))
            self._emit(
                RetryEvent(
                    cell=str(self._settings.cell),
                    sample=self._settings.sample,
                    turn=turn,
                    cause=last.cause,
                    attempt=retry,
                )
            )

        retrying = AsyncRetrying(
            stop=stop_after_attempt(1 + MAX_RETRIES),
            retry=retry_if_result(lambda answer: answer is None),
            before_sleep=again,
            retry_error_callback=lambda _: None,
        )
        answer: tuple[Reply, int] | None = await retrying(ask)
        if answer is None:
            raise exhausted(f"turn {turn}", MAX_RETRIES, rejected[-1].cause)
        return answer

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
