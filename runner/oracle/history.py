"""History: the server's records tell the conversation that the agent had, no more and no less.

The surviving path follows from the agent's transcript alone (rollbacks and retries drop turns), so a turn that the
server lost, kept or reordered is seen however well its own tokens fit together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import JsonValue

from runner.agents.records import JsonObject, Record
from runner.agents.transcript import TurnLog
from runner.oracle.finding import Finding, hard
from runner.oracle.match import Matcher, differing, strict

CHECK: Final = "history"
RECORD_PATH: Final = "/v1/chat/completions"


def check_path(records: Sequence[Record], path: Sequence[TurnLog]) -> list[Finding]:
    """The records are exactly the surviving turns, in order, by response id."""
    have = [record.response.id for record in records]
    want = [turn.response_id for turn in path]
    if have == want:
        return []
    position = next(
        (at for at, (left, right) in enumerate(zip(have, want, strict=False)) if left != right),
        min(len(have), len(want)),
    )
    seen = f"{have[position]!r}" if position < len(have) else "nothing"
    expected = f"{want[position]!r} (turn {path[position].turn})" if position < len(want) else "nothing more"
    return [
        hard(
            CHECK,
            "records",
            f"{len(have)} records, and {len(want)} turns survive by what the agent did: record {position} is {seen}, "
            f"expected {expected}",
            turn=path[position].turn if position < len(want) else None,
        )
    ]


def check_messages(
    records: Sequence[Record], path: Sequence[TurnLog], matcher: Matcher = strict, parts_as_text: bool = False
) -> list[Finding]:
    """Each record holds the messages that were sent, and the assistant messages in it are the stored ones.

    `matcher(stored, replayed)` is the lane's: `strict` for OpenAI, `loose_tool_call` for Anthropic. With
    `parts_as_text` a list of text parts counts as its joined text, as conversions from the Anthropic wire may write
    either.
    """
    findings: list[Finding] = []
    for position, (record, turn) in enumerate(zip(records, path, strict=False)):
        if record.path != RECORD_PATH or record.status_code != 200:
            message = f"turn {turn.turn}: recorded as {record.status_code} {record.path}, expected 200 {RECORD_PATH}"
            findings.append(hard(CHECK, "record", message, turn=turn.turn))
        findings += _roles(record, turn) or _contents(record, turn, matcher, parts_as_text)
        findings += _replays(records[:position], path[:position], record, turn, matcher)
        if not matcher(record.message, turn.reply):
            fields = ", ".join(differing(record.message, turn.reply))
            message = f"turn {turn.turn}: the client was given another reply than the record has; {fields} differ"
            findings.append(hard(CHECK, "reply", message, turn=turn.turn, role="assistant"))
        if record.finish_reason != turn.finish_reason:
            message = (
                f"turn {turn.turn}: the client was told finish_reason {turn.finish_reason!r}, "
                f"the record has {record.finish_reason!r}"
            )
            findings.append(hard(CHECK, "finish_reason", message, turn=turn.turn, role="assistant"))
    return findings


def _roles(record: Record, turn: TurnLog) -> list[Finding]:
    have = [str(message.get("role")) for message in record.request.messages]
    want = [str(message.get("role")) for message in turn.messages]
    if have == want:
        return []
    message = f"turn {turn.turn}: the recorded roles are {' '.join(have)}, expected {' '.join(want)}"
    return [hard(CHECK, "roles", message, turn=turn.turn)]


def _contents(record: Record, turn: TurnLog, matcher: Matcher, parts_as_text: bool) -> list[Finding]:
    findings: list[Finding] = []
    for index, (have, want) in enumerate(zip(record.request.messages, turn.messages, strict=True)):
        if want.get("role") == "assistant":
            same, fields = matcher(want, have), differing(want, have)
        else:
            read = _text if parts_as_text else _as_it_is
            fields = [] if read(have.get("content")) == read(want.get("content")) else ["content"]
            fields += [] if have.get("tool_call_id") == want.get("tool_call_id") else ["tool_call_id"]
            same = not fields
        if not same:
            role = str(want.get("role"))
            message = (
                f"turn {turn.turn}: message {index} ({role}) is recorded otherwise than sent; "
                f"{', '.join(fields)} differ"
            )
            findings.append(hard(CHECK, "message", message, turn=turn.turn, role=role))
    return findings


def _replays(
    earlier: Sequence[Record], turns: Sequence[TurnLog], record: Record, turn: TurnLog, matcher: Matcher
) -> list[Finding]:
    findings: list[Finding] = []
    for stored, origin in zip(earlier, turns, strict=True):
        at = len(origin.messages)
        replayed = record.request.messages[at] if at < len(record.request.messages) else _NOTHING
        if not matcher(stored.message, replayed):
            fields = ", ".join(differing(stored.message, replayed))
            message = f"turn {turn.turn}: message {at} is not the stored reply of turn {origin.turn}; {fields} differ"
            findings.append(hard(CHECK, "replay", message, turn=turn.turn, role="assistant"))
    return findings


def _text(content: JsonValue) -> JsonValue:
    """A list of text parts as its text; anything else as it is."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    whole = len(texts) == len(content) and all(isinstance(text, str) for text in texts)
    return "".join(str(text) for text in texts) if whole and texts else content


def _as_it_is(content: JsonValue) -> JsonValue:
    return content


_NOTHING: JsonObject = {}
