"""The same script driven two ways, turn by turn at temperature 0: what one way has and the other has not.

Both ways were judged by themselves; what neither shows alone is a message that one wire loses, or a prompt that one
server writes otherwise. The prompts must be equal token for token. Sampled tokens must be equal as long as the prompts
were, but for a choice between two tokens of equal probability, which an engine may take either way: from there on the
texts are different ones, and only what was appended is compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from pydantic import JsonValue

from runner.agents.records import JsonObject, Record, SessionView, read
from runner.agents.transcript import Transcript, TurnLog
from runner.base.terms import Difference, Lane, WireFormat
from runner.oracle.canonical import canonical
from runner.oracle.finding import Finding, Severity, TokenDiff, hard
from runner.oracle.match import differing, loose_tool_call
from runner.oracle.place import role_at
from runner.oracle.spans import Piece, joints, pieces
from runner.oracle.tokens import RADIUS, Tokens, first_difference
from runner.plan.model import PlannedCell

CHECK: Final = "differential"
NEAR_TIE: Final = 1e-3
"""Two tokens whose log-probs differ by less may be chosen either way; the same token scored twice was within 1e-5 in
float32."""
HALF: Final = math.log(0.5)
"""No two tokens can both be likelier than this: what looks like a tie above it is another sequence."""


@dataclass(frozen=True)
class Way:
    """One of the two: `records` are those of the surviving `path`. `name` is for people."""

    name: str
    records: Sequence[Record]
    path: Sequence[TurnLog]


def compare_ways(
    reference: Way, subject: Way, *, max_trim: int, may_differ: Collection[Difference], tokens: Tokens
) -> list[Finding]:
    """Every difference of `subject` from `reference`, in the order of the turns; empty when there is none.

    `max_trim` counts the tokens that the family's join may cut. What is in `may_differ` is told and does not fail.
    """
    lost = [finding for way in (reference, subject) for finding in _complete(way)]
    if lost:
        return lost
    if [turn.action for turn in reference.path] != [turn.action for turn in subject.path]:
        message = (
            f"the two ways were not driven alike: {reference.name} took {_actions(reference)}, {subject.name} "
            f"{_actions(subject)}"
        )
        return [hard(CHECK, "script", message)]
    return _Comparison(reference, subject, max_trim, frozenset(may_differ), tokens).findings()


def check_counterpart(view: SessionView, transcript: Transcript, cell: PlannedCell, tokens: Tokens) -> list[Finding]:
    """The session beside the one that its script drove another way; empty where the script drove one way only.

    Raises VerificationError when the snapshot of the other session does not follow the contract.
    """
    other = transcript.counterpart
    if other is None:
        return []
    if other.snapshot is None:
        message = f"there is no snapshot of the session that was driven as {other.lane}: nothing can be compared"
        return [hard(CHECK, "absent", message)]
    reference = read(
        SessionView, orjson.dumps(other.snapshot), "records", f"the snapshot of the session of {other.lane}"
    )
    return compare_ways(
        _way(reference, other.transcript, other.lane),
        _way(view, transcript, cell.lane),
        max_trim=cell.max_trim_tokens,
        may_differ=cell.may_differ,
        tokens=tokens,
    )


def _way(view: SessionView, transcript: Transcript, lane: Lane) -> Way:
    anthropic = transcript.wire is WireFormat.ANTHROPIC
    path = [canonical(turn) for turn in transcript.path] if anthropic else transcript.path
    return Way(f"{lane.service} over {lane.wire}", view.records, path)


class _Comparison:
    def __init__(
        self, reference: Way, subject: Way, max_trim: int, may_differ: frozenset[Difference], tokens: Tokens
    ) -> None:
        self._reference = reference
        self._subject = subject
        self._may_differ = may_differ
        self._tokens = tokens
        self._starts = joints(reference.records, max_trim), joints(subject.records, max_trim)
        self._names = _names(reference.records), _names(subject.records)
        self._told: set[tuple[int, bool, tuple[int, ...], tuple[int, ...]]] = set()
        self._apart: set[int] = set()
        """Records (from 0) whose sampled ids are not equal."""

    def findings(self) -> list[Finding]:
        found: list[Finding] = []
        equal_so_far = True
        for position in range(len(self._subject.records)):
            found += self._messages(position)
            prompt = self._prompt(position)
            equal_so_far = equal_so_far and self._equal_prompts(position)
            found += prompt
            found += self._output(position, comparable=equal_so_far)
            equal_so_far = equal_so_far and position not in self._apart
            if position not in self._apart:
                found += self._reply(position)
        return found

    def _pair(self, position: int) -> tuple[Record, Record, int]:
        return self._reference.records[position], self._subject.records[position], self._subject.path[position].turn

    def _equal_prompts(self, position: int) -> bool:
        left, right, _ = self._pair(position)
        return left.input_ids == right.input_ids

    def _prompt(self, position: int) -> list[Finding]:
        """The first piece that differs and was not told for a turn before."""
        left, right, turn = self._pair(position)
        if left.input_ids == right.input_ids:
            return []
        ours = pieces(self._reference.records, self._starts[0], position)
        theirs = pieces(self._subject.records, self._starts[1], position)
        for a, b in zip(ours, theirs, strict=True):
            expected, actual = left.input_ids[a.start : a.end], right.input_ids[b.start : b.end]
            if expected == actual or (a.sampled and a.turn in self._apart):
                continue
            key = a.turn, a.sampled, tuple(expected), tuple(actual)
            if key in self._told:
                continue
            self._told.add(key)
            return [self._piece(a, b, left, right, turn)]
        return []

    def _piece(self, a: Piece, b: Piece, left: Record, right: Record, turn: int) -> Finding:
        expected, actual = left.input_ids[a.start : a.end], right.input_ids[b.start : b.end]
        within = first_difference(expected, actual) or 0
        kind = self._cause(a, expected, actual)
        origin = self._subject.path[a.turn].turn
        what = "sampled in" if a.sampled else "appended with"
        allowed = kind in self._may_differ
        message = (
            f"turn {turn}: the prompts differ in what was {what} turn {origin} ({kind.replace('_', ' ')}): "
            f"{self._reference.name} has {len(expected)} ids there, {self._subject.name} {len(actual)}; the first "
            f"difference is at its token {within}" + (", which the family allows" if allowed else "")
        )
        return Finding(
            CHECK,
            kind,
            Severity.NOTE if allowed else Severity.HARD,
            message,
            turn,
            "assistant" if a.sampled else self._role(b, within),
            self._window(left.input_ids, right.input_ids, a.start + within, b.start + within),
        )

    def _role(self, piece: Piece, within: int) -> str:
        """Whose text the token `within` an appended piece of the subject is."""
        last = max(piece.start, min(piece.start + within, piece.end - 1))
        return role_at(self._subject.records[: piece.turn + 1], last, self._tokens)[1]

    def _cause(self, piece: Piece, expected: Sequence[int], actual: Sequence[int]) -> str:
        """The class of a difference between prompts."""
        left, right = self._tokens.decode(expected), self._tokens.decode(actual)
        if left == right:
            return "re_tokenized"
        ours, theirs = self._reference.records[piece.turn], self._subject.records[piece.turn]
        if piece.sampled:
            return "parser"
        if piece.turn == 0 and json.dumps(ours.request.tools) != json.dumps(theirs.request.tools):  # order is printed
            return Difference.TOOL_SCHEMA
        if _without(left, self._names[0]) == _without(right, self._names[1]):
            return Difference.CALL_IDS
        messages = ours.request.messages, theirs.request.messages
        if len(messages[0]) != len(messages[1]) or any(_fields(*pair) for pair in self._named(*messages)):
            return "history_rewritten"
        return "re_templated"

    def _output(self, position: int, *, comparable: bool) -> list[Finding]:
        left, right, turn = self._pair(position)
        index = first_difference(left.output_ids, right.output_ids)
        if index is None:
            return []
        self._apart.add(position)
        diff = self._tokens.diff(left.output_ids, right.output_ids, index)
        if not comparable:
            message = (
                f"turn {turn}: other tokens were sampled from token {index} on, after prompts that were not equal: "
                f"sampled text is not compared from here on"
            )
            return [Finding(CHECK, "diverged", Severity.NOTE, message, turn, "assistant", diff)]
        gap = _gap(left, right, index)
        tie = gap is not None and gap <= NEAR_TIE and _possible(left, right, index)
        said = "no log-probs to compare" if gap is None else f"their log-probs differ by {gap:.2g}"
        message = f"turn {turn}: equal prompts, and at temperature 0 sampled token {index} differs; {said}" + (
            ": a choice that the engine may make either way" if tie else ""
        )
        kind, severity = ("near_tie", Severity.NOTE) if tie else ("output", Severity.HARD)
        return [Finding(CHECK, kind, severity, message, turn, "assistant", diff)]

    def _messages(self, position: int) -> list[Finding]:
        left, right, turn = self._pair(position)
        roles = [[str(message.get("role")) for message in record.request.messages] for record in (left, right)]
        if roles[0] != roles[1]:
            message = (
                f"turn {turn}: {self._reference.name} records the roles {' '.join(roles[0])}, {self._subject.name} "
                f"{' '.join(roles[1])}"
            )
            return [hard(CHECK, "roles", message, turn=turn)]
        sampled = {len(turn.messages): at for at, turn in enumerate(self._subject.path[:position])}
        found: list[Finding] = []
        for index, (expected, actual) in enumerate(self._named(left.request.messages, right.request.messages)):
            if sampled.get(index, -1) in self._apart:
                continue
            fields = _fields(expected, actual)
            if fields:
                role = str(expected.get("role"))
                message = (
                    f"turn {turn}: message {index} ({role}) is recorded otherwise by {self._subject.name} than by "
                    f"{self._reference.name}; {', '.join(fields)} differ"
                )
                found.append(hard(CHECK, "message", message, turn=turn, role=role))
        return found

    def _reply(self, position: int) -> list[Finding]:
        """Equal tokens must have been read as equal messages."""
        left, right, turn = self._pair(position)
        found: list[Finding] = []
        ((expected, actual),) = self._named([left.message], [right.message])
        fields = _fields(expected, actual)
        if fields:
            message = f"turn {turn}: equal sampled tokens are recorded as different replies; {', '.join(fields)} differ"
            found.append(hard(CHECK, "reply", message, turn=turn, role="assistant"))
        if left.finish_reason != right.finish_reason:
            message = (
                f"turn {turn}: equal sampled tokens end with finish_reason {left.finish_reason!r} and "
                f"{right.finish_reason!r}"
            )
            found.append(hard(CHECK, "finish_reason", message, turn=turn, role="assistant"))
        return found

    def _named(self, left: Sequence[JsonObject], right: Sequence[JsonObject]) -> list[tuple[JsonObject, JsonObject]]:
        """Messages of both, with calls by their turn and order: their ids are the engine's own."""
        ours, theirs = (
            [_named(message, names) for message in messages]
            for messages, names in zip((left, right), self._names, strict=True)
        )
        return list(zip(ours, theirs, strict=True))

    def _window(self, left: Sequence[int], right: Sequence[int], at: int, to: int) -> TokenDiff:
        """The ids around `at` in the reference's prompt and `to` in the subject's, whose index is the one told."""
        ours, theirs = left[max(0, at - RADIUS) : at + RADIUS + 1], right[max(0, to - RADIUS) : to + RADIUS + 1]
        return TokenDiff(
            token_index=to,
            expected_id=left[at] if at < len(left) else None,
            actual_id=right[to] if to < len(right) else None,
            expected_ids=list(ours),
            actual_ids=list(theirs),
            expected_text=self._tokens.decode(ours),
            actual_text=self._tokens.decode(theirs),
        )


def _complete(way: Way) -> list[Finding]:
    have = [record.response.id for record in way.records]
    want = [turn.response_id for turn in way.path]
    if have == want and want:
        return []
    message = f"{way.name}: {len(have)} records are not the {len(want)} surviving turns: there is nothing to compare"
    return [hard(CHECK, "records", message)]


def _actions(way: Way) -> str:
    return " ".join(turn.action for turn in way.path)


def _gap(left: Record, right: Record, index: int) -> float | None:
    if index >= min(len(left.tokens), len(right.tokens)):
        return None
    one, two = left.tokens[index].logprob, right.tokens[index].logprob
    return None if one is None or two is None else abs(one - two)


def _possible(left: Record, right: Record, index: int) -> bool:
    """Whether both tokens can have been alternatives to each other: together no more than certain."""
    found = [record.tokens[index].logprob for record in (left, right)]
    return all(logprob is not None and logprob <= HALF + NEAR_TIE for logprob in found)


def _fields(expected: JsonObject, actual: JsonObject) -> list[str]:
    if expected.get("role") == "assistant":
        return [] if loose_tool_call(expected, actual) else differing(expected, actual)
    return [key for key in ("content", "tool_call_id") if expected.get(key) != actual.get(key)]


def _names(records: Sequence[Record]) -> dict[str, str]:
    """Call id -> which call of which reply it is."""
    return {
        identity: f"call {number} of reply {turn}"
        for turn, record in enumerate(records)
        for number, identity in enumerate(_ids(record.message))
    }


def _named(message: JsonObject, names: Mapping[str, str]) -> JsonObject:
    plain: JsonObject = {**message, "content": _text(message.get("content"))}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        plain["tool_calls"] = [
            {**call, "id": names.get(str(call.get("id")), call.get("id"))} if isinstance(call, dict) else call
            for call in calls
        ]
    if message.get("role") == "tool":
        identity = message.get("tool_call_id")
        plain["tool_call_id"] = names.get(str(identity), identity)
    return plain


def _text(content: JsonValue) -> JsonValue:
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text")) for part in content if isinstance(part, dict))
    return content


def _ids(message: JsonObject) -> list[str]:
    calls = message.get("tool_calls")
    return [str(call.get("id")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _without(text: str, names: Mapping[str, str]) -> str:
    for identity, name in names.items():
        text = text.replace(identity, f"<{name}>")
    return text
