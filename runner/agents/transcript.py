"""What an agent sent and received, turn by turn: the runner's own side of the story.

The oracle compares it with what the server recorded. It is saved beside the server's snapshot, so that a run can be
judged again without any container.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue, TypeAdapter

from runner.agents.records import JsonObject
from runner.base.terms import Lane, WireFormat


@dataclass(frozen=True)
class Rejected:
    """A reply that did not become history: the request was made again from the same parent."""

    cause: str
    finish_reason: str | None
    seed: int | None
    response_id: str
    reply: JsonObject


@dataclass(frozen=True)
class Kept:
    """The end of the session's records as `GET` showed it at one moment.

    On a line (v1) the next rollback takes a record away, and only what was looked at before can still be judged.
    `response_id` and `finish_reason` are those of the last of `records` records, None where there was none;
    `output_ids` are its sampled ids, `[n_output]`.
    """

    records: int
    response_id: str | None = None
    finish_reason: str | None = None
    output_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Unseen:
    """A request whose reply the client did not see, because it closed the connection.

    `turn` is the number of the turn that it was an attempt at, `parent` and `messages` are that turn's. `recorded` is
    True where the server had begun to answer 200, so that it must have recorded a generation; False where the client
    went before that: then the generation is recorded or withdrawn, as the race falls. `kept` is what the server showed
    right after, where the script looked.
    """

    turn: int
    parent: int | None
    messages: list[JsonObject]
    recorded: bool
    kept: Kept | None = None


@dataclass(frozen=True)
class TurnLog:
    """One turn whose reply became history.

    `parent` is the number of the turn whose reply is the last sampled assistant message of the request, None for the
    first. `messages` is the whole history as sent (on the Anthropic wire with
    the system prompt as its first message). `output_ids` are the ids that the client saw, `[n_output]`, None
    where the wire does not carry them (streams). `seconds` covers the rejected attempts as well. `budget` is the number
    of tokens that the request allowed and `kept` what the server showed right after the reply, both where the script
    says so.
    """

    turn: int
    action: str
    parent: int | None
    messages: list[JsonObject]
    reply: JsonObject
    response_id: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    seed: int | None = None
    output_ids: list[int] | None = None
    rejected: list[Rejected] = field(default_factory=list)
    budget: int | None = None
    kept: Kept | None = None


@dataclass(frozen=True)
class Forest:
    """What `GET /sessions/{id}?view=tree` answered: with 200 `body` holds the record of every node, else it is None.

    A server need not have that view, and may show the active path alone.
    """

    status: int
    body: JsonValue = None


@dataclass
class Transcript:
    """One session as its agent saw it. Filled while it is driven, so that a broken-off session has one as well."""

    wire: WireFormat
    stream: bool
    seed: int
    session_id: str = ""
    tools: list[JsonObject] = field(default_factory=list)
    """What was sent as tools, in the form of the wire."""
    driver_events: list[str] = field(default_factory=list)
    turns: list[TurnLog] = field(default_factory=list)
    unfinished: list[Rejected] = field(default_factory=list)
    """Rejected replies of a turn that never got a good one."""
    unseen: list[Unseen] = field(default_factory=list)
    """Requests whose replies the client gave up."""
    forest: Forest | None = None
    """All conversations of the session, where the script has left more than one behind."""
    counterpart: Counterpart | None = None
    """The same script driven another way beside this session, where the script does that."""

    @property
    def path(self) -> list[TurnLog]:
        """The turns that must survive at the server: from the first turn to the last one, by `parent`."""
        return self.path_to(self.turns[-1].turn) if self.turns else []

    def path_to(self, turn: int) -> list[TurnLog]:
        """The turns from the first one to the turn of this number, by `parent`."""
        by_number = {log.turn: log for log in self.turns}
        chain = [by_number[turn]]
        while (number := chain[-1].parent) is not None:
            chain.append(by_number[number])
        return chain[::-1]

    @property
    def retries(self) -> dict[str, int]:
        """Rejected replies by cause."""
        counts: dict[str, int] = {}
        for rejected in [*(item for turn in self.turns for item in turn.rejected), *self.unfinished]:
            counts[rejected.cause] = counts.get(rejected.cause, 0) + 1
        return counts


@dataclass
class Counterpart:
    """A second session that says the same as the first, in another lane. `snapshot` is what `GET` showed of it in the
    end, None where that could not be had."""

    lane: Lane
    transcript: Transcript
    snapshot: JsonValue = None


TRANSCRIPT_ADAPTER: TypeAdapter[Transcript] = TypeAdapter(Transcript)
