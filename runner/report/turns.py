"""What was said, turn by turn, for the page: read from the evidence of the samples, `sessions/<index>.json`.

For reading only. A file that is missing or cannot be read costs its turns on the page, with the reason, and nothing
else: the verdict does not depend on what is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson
from pydantic import JsonValue

from runner.agents.records import JsonObject
from runner.agents.transcript import TRANSCRIPT_ADAPTER, Rejected, Transcript, TurnLog, Unseen
from runner.verdict.model import CellVerdict, SampleVerdict

SAID_CHARS = 240
"""Characters that are shown of one message; sessions/<index>.json has all."""


@dataclass(frozen=True)
class Said:
    """One message, or one part of a reply. `kind` is a role, or `thinking`, `call`."""

    kind: str
    text: str


@dataclass(frozen=True)
class Turn:
    """One turn as the page shows it. `seconds` covers the attempts that were rejected."""

    number: int
    action: str
    parent: int | None
    finish: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    appended: list[Said]
    reply: list[Said]
    retries: list[str] = field(default_factory=list)
    off_path: bool = False
    """Its reply is not history any more: it was rolled back."""
    left: list[str] = field(default_factory=list)
    """Requests for this turn whose replies the client gave up before."""


@dataclass(frozen=True)
class Session:
    """The turns of one sample; `problem` says why there are none."""

    turns: list[Turn] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    """Replies to a turn that never got a good one."""
    problem: str = ""

    @property
    def seconds(self) -> float:
        """All turns together."""
        return sum(turn.seconds for turn in self.turns)


def read_session(run: Path, cell: CellVerdict, sample: SampleVerdict) -> Session:
    """The session of one sample, from the artifacts of the run."""
    path = run / cell.artifacts / "sessions" / f"{sample.index}.json"
    try:
        document = orjson.loads(path.read_bytes())
        transcript = TRANSCRIPT_ADAPTER.validate_python(document["transcript"])
        return session(transcript)
    except FileNotFoundError:
        return Session(problem="no session was recorded")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Session(problem=f"{path.name} cannot be read: {str(error).splitlines()[0][:SAID_CHARS]}")


def session(transcript: Transcript) -> Session:
    """The turns of a transcript, in the order in which they were driven."""
    known = {turn.turn: turn for turn in transcript.turns}
    path = {turn.turn for turn in transcript.path}
    return Session(
        turns=[
            replace(
                _turn(turn, known.get(turn.parent or 0), turn.turn in path),
                left=[_left(unseen) for unseen in transcript.unseen if unseen.turn == turn.turn],
            )
            for turn in transcript.turns
        ],
        unfinished=[_rejected(rejected) for rejected in transcript.unfinished],
    )


def _turn(turn: TurnLog, parent: TurnLog | None, on_path: bool) -> Turn:
    # The request repeats the parent's history and its reply; what follows is new.
    new = turn.messages[len(parent.messages) + 1 :] if parent else turn.messages
    return Turn(
        number=turn.turn,
        action=turn.action,
        parent=turn.parent,
        finish=turn.finish_reason,
        prompt_tokens=turn.prompt_tokens,
        completion_tokens=turn.completion_tokens,
        seconds=turn.seconds,
        appended=[said for message in new for said in _message(message)],
        reply=list(_message(turn.reply)),
        retries=[_rejected(rejected) for rejected in turn.rejected],
        off_path=not on_path,
    )


def _left(unseen: Unseen) -> str:
    return "a reply was lost before, which had begun" if unseen.recorded else "left before while it was generated"


def _rejected(rejected: Rejected) -> str:
    details = [f"finish reason {rejected.finish_reason}"] if rejected.finish_reason else []
    details += [f"seed {rejected.seed}"] if rejected.seed is not None else []
    return f"{rejected.cause} ({', '.join(details)})" if details else rejected.cause


def _message(message: JsonObject) -> Iterator[Said]:
    """The parts of one message of either wire format."""
    role = str(message.get("role", "?"))
    thinking = message.get("reasoning_content")
    if isinstance(thinking, str) and thinking:
        yield _said("thinking", thinking)
    content = message.get("content")
    for block in content if isinstance(content, list) else [content]:
        yield from _block(role, block)
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            yield _said("call", f"{function.get('name')}({function.get('arguments')})")


def _block(role: str, block: JsonValue) -> Iterator[Said]:
    if isinstance(block, str):
        if block:
            yield _said(role, block)
    elif isinstance(block, dict):
        match block.get("type"):
            case "text":
                yield _said(role, str(block.get("text")))
            case "thinking":
                yield _said("thinking", str(block.get("thinking")))
            case "tool_use":
                arguments = orjson.dumps(block.get("input")).decode()
                yield _said("call", f"{block.get('name')}({arguments})")
            case "tool_result":
                yield _said("tool", _text(block.get("content")))
            case other:
                yield _said(role, f"[{other}]")


def _text(content: JsonValue) -> str:
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return str(content)


def _said(kind: str, text: str) -> Said:
    return Said(kind, text if len(text) <= SAID_CHARS else f"{text[:SAID_CHARS]}\u2026")


def worst(findings: Sequence[tuple[int | None, str]], turn: int) -> str:
    """The worst severity among these (turn, severity) that concerns this turn, or an empty string."""
    mine = {severity for number, severity in findings if number == turn}
    return next((severity for severity in ("hard", "soft", "note") if severity in mine), "")
