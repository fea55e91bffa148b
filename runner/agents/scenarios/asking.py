"""Turns that are not taken one after the other with every reply read to its end, on a `Conversation` of either wire.

A script says what it does to the connection or to the budget; here it is done, and written into the transcript in the
form in which the oracle can judge it: the budget of a turn, what the server kept right after it, and the requests whose
replies nobody read.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from runner.agents.pending import Pending, leave_begun
from runner.agents.records import JsonObject, Reply, SessionView, read
from runner.agents.reply import as_history
from runner.agents.scenarios.conversation import Choice, Conversation, parent
from runner.agents.scenarios.scene import Scene
from runner.agents.session import Refused, SessionClient
from runner.agents.transcript import Kept, Unseen
from runner.agents.turns import Request, Turns
from runner.base.errors import VerificationError
from runner.base.events import RetryEvent
from runner.base.terms import WireFormat

BUSY: Final = 409
"""What a line answers to a turn while it is busy with another one."""
BUSY_POLL_SECONDS: Final = 0.05
CUT: Final = frozenset({"length", "max_tokens"})
"""How the wires say that a reply was cut by its budget."""


@dataclass(frozen=True)
class Answered:
    """One of several turns at the same time. `sent` and `done` are seconds of one monotonic clock."""

    answer: Reply | Refused
    sent: float
    done: float


async def look(scene: Scene) -> Kept:
    """The last record of the sample's session as it is now."""
    view = read(SessionView, await scene.client.get(scene.session), "records", "GET /sessions/{id}")
    if not view.records:
        return Kept(records=0)
    last = view.records[-1]
    return Kept(len(view.records), last.response.id, last.finish_reason, last.output_ids)


async def digest(scene: Scene) -> str:
    """SHA-256 of the session as the server shows it: equal before and after what must not change it."""
    return hashlib.sha256(await scene.client.get(scene.session)).hexdigest()


def request(
    talk: Conversation,
    choice: Choice,
    ask: Callable[[int], Awaitable[Reply]],
    *,
    action: str | None = None,
    checked: bool = True,
) -> Request:
    """The history as a turn. Without `checked` any reply is taken, also one that is cut or of another kind."""
    sent = list(talk.history)
    number = len(talk.scene.transcript.turns) + 1

    def kept(reply: Reply) -> JsonObject:
        return as_history(reply.message) if talk.scene.transcript.wire is WireFormat.OPENAI else reply.message

    return Request(
        # the name of forced turns is what tells the oracle that a grammar masked their log-probs
        action=choice.value if choice is Choice.CALL or action is None else action,
        parent=parent(sent, talk.scene.transcript.turns),
        messages=sent,
        ask=ask,
        seed=talk.seed,
        rejects=lambda reply: talk.rejects(reply, choice) if checked else None,
        check=talk.checked if checked else kept,
        exhausted=lambda cause: talk.exhausted(number, cause),
    )


async def budgeted(talk: Conversation, choice: Choice, budget: int) -> JsonObject:
    """A turn with this many tokens, whose reply is looked up in the records at once. The history stays as it is."""
    sent = list(talk.history)

    async def ask(retry: int) -> Reply:
        return await talk.ask(talk.body(sent, choice, retry, budget))

    message = await turns(talk).take(request(talk, choice, ask, checked=False))
    _amend(talk, budget=budget, kept=await look(talk.scene))
    return message


async def looked_up(talk: Conversation) -> None:
    """Write down what the server keeps now as what it kept of the last turn."""
    _amend(talk, kept=await look(talk.scene))


async def lose_reply(talk: Conversation, choice: Choice, *, stream: bool, into_body: bool) -> None:
    """Send the history as a turn and close the connection when the reply has begun, `into_body` behind its first bytes.

    The server has recorded that generation, and the client does not know it.
    """
    await leave_begun(*_place(talk), _body(talk, choice, stream), talk.scene.settings.turn_timeout, into_body=into_body)
    _unseen(talk, recorded=True, kept=await look(talk.scene))


async def leave_waiting(talk: Conversation, choice: Choice, *, stream: bool) -> None:
    """Send the history as a turn and close the connection while the server is at it.

    Whether a generation is recorded then is decided by a race that the client does not see.
    """
    pending = await Pending.begin(*_place(talk), _body(talk, choice, stream), talk.scene.settings.turn_timeout)
    came = await pending.leave()
    _unseen(talk, recorded=came, kept=await look(talk.scene) if came else None)


async def again(talk: Conversation, choice: Choice) -> JsonObject:
    """The next assistant message, from a server that may still be busy with a turn that the client has left.

    While a line is busy it refuses, and is asked again, for as long as a turn may take.
    """
    sent = list(talk.history)
    scene = talk.scene

    async def ask(retry: int) -> Reply:
        body = talk.body(sent, choice, retry, None)
        polling = AsyncRetrying(
            stop=stop_after_delay(scene.settings.turn_timeout),
            wait=wait_fixed(BUSY_POLL_SECONDS),
            retry=retry_if_result(lambda answer: isinstance(answer, Refused) and answer.status == BUSY),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        )
        answer: Reply | Refused = await polling(
            scene.client.offer, scene.session, talk.path, body, scene.settings.turn_timeout
        )
        return reply_of(answer, talk)

    message = await turns(talk, talk.retries).take(request(talk, choice, ask))
    talk.history.append(message)
    return message


async def together(talk: Conversation, choice: Choice, count: int) -> list[Answered]:
    """The history as `count` turns at the same time, in the order in which they were answered.

    Connections are opened first, so that nothing stands between the requests. Nothing is written into the transcript.
    """
    scene = talk.scene
    body = talk.body(list(talk.history), choice, 0, None)
    await asyncio.gather(*(scene.client.get(scene.session) for _ in range(count)))
    answered: list[Answered] = []

    async def one() -> None:
        sent: list[float] = []
        answer = await scene.client.offer(
            scene.session,
            talk.path,
            body,
            scene.settings.turn_timeout,
            lambda: sent.append(time.monotonic()),
        )
        done = time.monotonic()
        answered.append(Answered(answer, sent[0] if sent else done, done))

    await asyncio.gather(*(one() for _ in range(count)))
    return answered


def add(talk: Conversation, choice: Choice, answered: Answered) -> JsonObject:
    """Put a reply that came together with others into the transcript; it may be cut or of another kind."""
    reply = reply_of(answered.answer, talk)

    async def ask(retry: int) -> Reply:
        return reply

    wanted = request(talk, choice, ask, checked=False)
    return turns(talk).add(wanted, reply, talk.seed(0), answered.done - answered.sent)


def turns(talk: Conversation, retries: int = 0) -> Turns:
    """What takes turns into the transcript of the conversation."""
    scene = talk.scene
    return Turns(scene.settings, scene.transcript, scene.emit, scene.on_attempt, retries)


def reply_of(answer: Reply | Refused, talk: Conversation) -> Reply:
    """The reply. Raises VerificationError where the turn was refused."""
    if isinstance(answer, Refused):
        number = len(talk.scene.transcript.turns) + 1
        raise VerificationError(
            "turn", f"turn {number}: POST {talk.path} answered {answer.status}, expected 200: {answer.text}"
        )
    return answer


def answer_call(talk: Conversation, message: JsonObject, result: str) -> None:
    """Answer every call of an assistant message."""
    talk.results([(call.id, result) for call in talk.calls_of(message)])


def _place(talk: Conversation) -> tuple[SessionClient, str, str]:
    return talk.scene.client, talk.scene.session, talk.path


def _body(talk: Conversation, choice: Choice, stream: bool) -> JsonObject:
    body = talk.body(list(talk.history), choice, 0, None)
    body["stream"] = stream
    if not stream:
        body.pop("stream_options", None)
    return body


def _unseen(talk: Conversation, *, recorded: bool, kept: Kept | None) -> None:
    done = talk.scene.transcript.turns
    messages = list(talk.history)
    left = Unseen(len(done) + 1, parent(messages, done), messages, recorded, kept)
    talk.scene.transcript.unseen.append(left)
    # the turn is asked for again: progress, which a cell that waits for its turns alone would take for a stall
    settings = talk.scene.settings
    attempt = sum(unseen.turn == left.turn for unseen in talk.scene.transcript.unseen)
    cause = "reply_lost" if recorded else "left_waiting"
    talk.scene.emit(
        RetryEvent(cell=str(settings.cell), sample=settings.sample, turn=left.turn, cause=cause, attempt=attempt)
    )


def _amend(talk: Conversation, *, kept: Kept, budget: int | None = None) -> None:
    log = talk.scene.transcript.turns[-1]
    talk.scene.transcript.turns[-1] = replace(log, kept=kept, budget=budget)
