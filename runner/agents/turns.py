"""One turn of a session on any wire: ask, ask again from the same parent while the reply is no good, write it down.

It keeps what both agents must do alike: the bound on repeats, the callback for each of them, the transcript and the
progress events. What makes a reply good is the agent's own.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt

from runner.agents.records import JsonObject, Reply
from runner.agents.transcript import Rejected, Transcript, TurnLog
from runner.base.errors import VerificationError
from runner.base.events import Emit, RetryEvent, TurnDone
from runner.base.terms import CellId, Role
from runner.plan.model import FailureMode, PlannedCell, PlannedSample, SystemExpectation


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
    intermediate_system: SystemExpectation | None
    temperature: float
    max_tokens: int
    turn_timeout: float
    tool_call_parser: str = ""

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
            intermediate_system=cell.intermediate_system,
            temperature=cell.temperature,
            max_tokens=cell.max_tokens,
            turn_timeout=cell.turn_timeout,
            tool_call_parser=cell.tool_call_parser,
        )


@dataclass(frozen=True)
class Request:
    """One turn to be taken.

    `ask(retry)` sends the request, `retry` counting from 0; `seed(retry)` is the seed that it carries, if any;
    `rejects(reply)` is the cause for which a reply is no good, or None; `check(reply)` gives the message as it becomes
    history, and raises for what no repeat can mend; `exhausted(cause)` is the error when the repeats are used up.
    """

    action: str
    parent: int | None
    messages: list[JsonObject]
    ask: Callable[[int], Awaitable[Reply]]
    seed: Callable[[int], int | None]
    rejects: Callable[[Reply], str | None]
    check: Callable[[Reply], JsonObject]
    exhausted: Callable[[str], VerificationError]


class Turns:
    """Takes the turns of one session and fills its transcript. `max_retries` bounds the repeats of one turn."""

    def __init__(
        self, settings: DriveSettings, transcript: Transcript, emit: Emit, on_attempt: OnAttempt, max_retries: int
    ) -> None:
        self._settings = settings
        self._transcript = transcript
        self._emit = emit
        self._on_attempt = on_attempt
        self._max_retries = max_retries

    @property
    def next(self) -> int:
        """Number of the turn that comes next, from 1."""
        return len(self._transcript.turns) + 1

    async def take(self, request: Request) -> JsonObject:
        """The assistant message of the turn, which is in the transcript then.

        Raises what `request.exhausted` makes when no reply was good, VerificationError for a reply that is wrong,
        and whatever asking raises.
        """
        started = time.monotonic()
        reply, seed = await self._good_reply(request)
        return self.add(request, reply, seed, time.monotonic() - started)

    def add(self, request: Request, reply: Reply, seed: int | None, seconds: float) -> JsonObject:
        """Put a reply that has come into the transcript as the next turn; its message is returned.

        Raises VerificationError for a reply that is wrong.
        """
        message = request.check(reply)
        usage = reply.usage
        if usage is None:
            raise VerificationError("usage", f"turn {self.next}: the reply {reply.id!r} carries no usage")
        log = TurnLog(
            turn=self.next,
            action=request.action,
            parent=request.parent,
            messages=request.messages,
            reply=message,
            response_id=reply.id,
            finish_reason=reply.finish_reason,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=seconds,
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
                turn=log.turn,
                action=log.action,
                finish_reason=log.finish_reason,
                prompt_tokens=log.prompt_tokens,
                completion_tokens=log.completion_tokens,
                seconds=log.seconds,
            )
        )
        return message

    async def _good_reply(self, request: Request) -> tuple[Reply, int | None]:
        rejected, turn = self._transcript.unfinished, self.next

        async def ask() -> tuple[Reply, int | None] | None:
            retry = len(rejected)
            reply = await request.ask(retry)
            cause = request.rejects(reply)
            if cause is None:
                return reply, request.seed(retry)
            rejected.append(Rejected(cause, reply.finish_reason, request.seed(retry), reply.id, reply.message))
            return None

        def again(state: RetryCallState) -> None:
            last, retry = rejected[-1], state.attempt_number
            self._on_attempt(Attempt(turn, retry, last.cause, request.seed(retry), last.finish_reason))
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
            stop=stop_after_attempt(1 + self._max_retries),
            retry=retry_if_result(lambda answer: answer is None),
            before_sleep=again,
            retry_error_callback=lambda _: None,
        )
        answer: tuple[Reply, int | None] | None = await retrying(ask)
        if answer is None:
            raise request.exhausted(rejected[-1].cause)
        return answer
