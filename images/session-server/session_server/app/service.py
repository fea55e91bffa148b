"""What the routes share: the parts of the server, made once, and the one way in which a turn is generated.

A turn is position -> prompt ids -> generate -> commit. The first two change nothing, the third happens outside, and the
last is one synchronous step behind every check, so a turn that fails at any point leaves the session as it was.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from session_server.core.errors import EngineError, NotFoundError, SessionError, refuse_depth
from session_server.core.matchers import Matcher
from session_server.core.policy import check_prefix
from session_server.core.session import Session
from session_server.core.store import Store
from session_server.core.tokens import Snapshot
from session_server.core.turn import EngineRequest, Position, Record, Turn
from session_server.engine.client import EngineClient, EngineReply
from session_server.engine.reply import Generation, read_generation
from session_server.observe.metrics import Metrics
from session_server.samples.assemble import Assembler
from session_server.settings import Settings
from session_server.tito.codec import Codec
from session_server.tito.verdicts import Verdicts
from session_server.wire.anthropic.dialect import Anthropic
from session_server.wire.openai import ChatRequest, EngineOptions
from session_server.wire.replay import Replays

Presented = TypeVar("Presented")


@dataclass(frozen=True, slots=True)
class Refused:
    """The engine's own error answer; nothing was recorded."""

    reply: EngineReply


@dataclass(frozen=True, slots=True)
class Done(Generic[Presented]):
    """A recorded generation: the engine's headers, what `present` made of its body, and how it was asked for."""

    headers: Mapping[str, str]
    presented: Presented
    request: EngineRequest
    parent: Turn | None


@dataclass(frozen=True, slots=True)
class Service:
    """The running server's parts."""

    settings: Settings
    codec: Codec
    store: Store
    engine: EngineClient
    matcher: Matcher
    verdicts: Verdicts
    options: EngineOptions
    assembler: Assembler
    metrics: Metrics
    anthropic: Anthropic
    chat_replays: Replays
    message_replays: Replays

    async def run_turn(
        self,
        session: Session,
        chat: ChatRequest,
        headers: Mapping[str, str],
        present: Callable[[Generation], Presented],
        *,
        matcher: Matcher | None = None,
    ) -> Done[Presented] | Refused:
        """Generate one turn for `session` and record it.

        `present` makes the client's answer; it runs before the commit, so that a reply which cannot be presented is
        not recorded either. `matcher` replaces the configured one.

        Raises:
            SessionError: the turn was refused or failed; the session is what it was.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a turn runs inside a task")
        started = time.perf_counter()
        with session.turn(task.cancel), self.metrics.in_flight.track_inprogress():
            try:
                outcome = await self._generate(session, chat, headers, present, matcher or self.matcher)
            except asyncio.CancelledError:
                self.metrics.turns.labels("withdrawn").inc()
                if not session.closed:
                    raise
                task.uncancel()
                raise NotFoundError(f"session {session.id} was deleted while this turn was generated") from None
            except SessionError as error:
                self.metrics.turns.labels(str(error.status)).inc()
                raise
            finally:
                # a generation may take longer than a session may be idle
                self.store.touch(session)
        self.metrics.turn_seconds.observe(time.perf_counter() - started)
        return outcome

    def prompt_length(self, session: Session, chat: ChatRequest, matcher: Matcher) -> int:
        """Number of ids that a request would send; nothing changes.

        Raises:
            SessionError: it would be refused.
        """
        with refuse_depth():
            _, prompt = self._prompt(session, chat, matcher, self.codec.kwargs(chat.template_kwargs))
        return len(prompt)

    def _prompt(
        self, session: Session, chat: ChatRequest, matcher: Matcher, kwargs: Mapping[str, Any]
    ) -> tuple[Position, Snapshot]:
        position = session.state.position(chat.messages, matcher, repeated=chat.repeated)
        return position, self.codec.prompt(position, tools=chat.tools, kwargs=kwargs)

    async def _generate(
        self,
        session: Session,
        chat: ChatRequest,
        headers: Mapping[str, str],
        present: Callable[[Generation], Presented],
        matcher: Matcher,
    ) -> Done[Presented] | Refused:
        requested_at = time.time()
        kwargs = self.codec.kwargs(chat.template_kwargs)
        with refuse_depth():
            position, prompt = self._prompt(session, chat, matcher, kwargs)
            request = chat.engine_request(prompt, position.parent, template_kwargs=kwargs, options=self.options)
        asked = time.perf_counter()
        reply = await self.engine.chat(request.pieces(), headers)
        self.metrics.engine_seconds.observe(time.perf_counter() - asked)
        if reply.status != 200:
            if reply.status < 400:
                raise EngineError(f"upstream answered {reply.status}, which is neither a generation nor a refusal")
            self.metrics.turns.labels("engine_refused").inc()
            return Refused(reply)
        generation = read_generation(
            reply.body,
            prompt_length=len(prompt),
            budget=chat.budget,
            end_ids=self.codec.vocabulary.end_ids,
        )
        outside = self.codec.vocabulary.first_outside(generation.output_ids)
        if outside is not None:
            raise EngineError(
                f"upstream response cannot be recorded: sampled id {outside} is outside the vocabulary of "
                f"{self.codec.vocabulary.size}; engine and tokenizer directory do not match"
            )
        completion_start = len(prompt)
        tokens = prompt.extended(generation.output_ids)
        check_prefix(position.parent, tokens, self.codec.family.max_trim_tokens)
        try:
            presented = present(generation)
        except (ValueError, TypeError, RecursionError) as error:
            raise EngineError(f"upstream response cannot be presented: {type(error).__name__}: {error}") from error
        session.state.commit(
            position.turn(
                seq=session.state.next_seq,
                assistant=generation.message,
                tokens=tokens,
                completion_start=completion_start,
                finish_reason=generation.finish_reason,
                response_id=generation.response_id,
                record=Record(
                    request=request,
                    response=generation.raw,
                    requested_at=requested_at,
                    committed_at=time.time(),
                    tools=chat.tools,
                ),
            )
        )
        self.metrics.recorded.inc()
        self.metrics.prompt_tokens.inc(completion_start)
        self.metrics.completion_tokens.inc(len(generation.output_ids))
        return Done(reply.headers, presented, request, position.parent)
