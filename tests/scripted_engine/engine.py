"""The engine without HTTP: tokens in, tokens out, and the body of a completion.

Sampled text is split into tokens as no tokenizer would split it (one word is cut in two), because real sampling does
not follow the canonical split either: a session server that tokenizes text again instead of keeping ids is caught by
that.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from .dialects import DIALECTS, Answer, Dialect
from .faults import Fault, Kind
from .model import answer

MARK = "scripted_dialect"
"""The entry of a model directory's config.json that names the dialect; without it the directory's name counts."""


class BadRequestError(Exception):
    """The request cannot be answered; the text says why."""


@dataclass
class Sampled:
    """One generation. `ids` `[n_output]`; `told` is what meta_info says their number is."""

    text: str
    ids: list[int]
    reason: str
    told: int
    told_usage: int


@dataclass
class Session:
    """What the engine remembers of one routing key."""

    number: int
    turns: int = 0
    messages: Any = None
    spoilt: bool = False
    last_ids: list[int] = field(default_factory=list)


class ScriptedEngine:
    """Answers chat completions. `requests` keeps the bodies in the order of arrival, `faults` what goes wrong.

    Raises ValueError for a directory that names a dialect which there is not.
    """

    def __init__(self, directory: Path, faults: Sequence[Fault] = ()) -> None:
        self.directory = directory
        self.dialect = _dialect(directory)
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.faults: list[Fault] = list(faults)
        self.requests: list[dict[str, Any]] = []
        self.size = self.tokenizer.get_vocab_size(with_added_tokens=True)
        self._sessions: dict[str, Session] = {}
        self._seen: dict[tuple[int, ...], int] = {}

    def arrive(self, key: str, body: dict[str, Any]) -> tuple[Session, list[Fault]]:
        """Count a request of the session `key`; the faults that hit it are counted as fired.

        A request that repeats the messages of one that a fault has just spoilt is the same turn, asked for again.
        """
        session = self._sessions.setdefault(key, Session(number=len(self._sessions) + 1))
        if not (session.spoilt and session.messages == body.get("messages")):
            session.turns += 1
        session.messages = body.get("messages")
        self.requests.append(body)
        hits = [fault for fault in self.faults if fault.hits(session.number, session.turns)]
        for fault in hits:
            fault.fired += 1
        session.spoilt = bool(hits)
        return session, hits

    def complete(self, body: dict[str, Any], session: Session, faults: Sequence[Fault]) -> dict[str, Any]:
        """The body of a chat completion. Raises BadRequestError where SGLang would answer 400."""
        prompt = self.checked_ids(body.get("input_ids"))
        if body.get("stream") and body.get("return_meta_info"):
            raise BadRequestError("return_meta_info is not supported with streaming")
        started = time.perf_counter()
        kinds = {fault.kind: fault for fault in faults}
        names = {str(tool["function"]["name"]) for tool in body.get("tools") or []}
        choice = body.get("tool_choice")
        said = answer(body.get("messages") or [], body.get("tools") or [], choice, body.get("regex") or "")
        if Kind.EMPTY in kinds:
            said = Answer(said.topic)
        elif Kind.NO_CALL in kinds:
            said = Answer(said.topic, "I would rather talk about something else.")
        sampled = self._sample(said, prompt, body, kinds)
        message = self.dialect.parse(sampled.text, names, calls_allowed=bool(names) and choice != "none")
        if Kind.EATEN in kinds and message.get("reasoning_content"):
            message["reasoning_content"] = message["reasoning_content"].strip()
        reason = sampled.reason
        if message.get("tool_calls"):
            reason = "tool_calls" if reason == "stop" else reason
            if Kind.WRONG_NAME in kinds:
                message["tool_calls"][0]["function"]["name"] = "get_<|im_end|>weather"
        if Kind.WRONG_REASON in kinds:
            reason = "stop" if reason == "tool_calls" else "tool_calls"
        cached = _common(session.last_ids, prompt)
        session.last_ids = [*prompt, *sampled.ids]
        identity = uuid.uuid4().hex
        entries = self._entries(prompt, sampled.ids, kinds)
        read = len(prompt) + 7 if Kind.OWN_PROMPT in kinds else len(prompt)
        meta = {
            "id": identity,
            "finish_reason": {"type": sampled.reason},
            "prompt_tokens": read,
            "completion_tokens": sampled.told,
            "cached_tokens": cached,
            "weight_version": "default",
            "e2e_latency": time.perf_counter() - started,
            "output_token_logprobs": entries,
        }
        if Kind.NO_TOKEN_IDS in kinds:
            del meta["output_token_logprobs"]
        entry: dict[str, Any] = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": reason,
            "matched_stop": sampled.ids[-1] if reason == "stop" else None,
        }
        if body.get("return_meta_info") and Kind.NO_META_INFO not in kinds:
            entry["meta_info"] = meta
        usage = {"prompt_tokens": read, "completion_tokens": sampled.told_usage}
        return {
            "id": identity,
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", "scripted"),
            "choices": [entry],
            "usage": {**usage, "total_tokens": sum(usage.values()), "prompt_tokens_details": None},
        }

    def score(self, ids: list[int], start: int) -> list[list[Any]]:
        """`input_token_logprobs` of a `/generate` request, from position `start` on; the first has no log-prob."""
        return [
            [None if position == start else _logprob(ids[position - 1], ids[position]), ids[position], None]
            for position in range(start, len(ids))
        ]

    def checked_ids(self, value: Any) -> list[int]:
        """Prompt ids. A real engine dies of an id that it does not have; this one refuses it."""
        if not isinstance(value, list) or not value:
            raise BadRequestError("the scripted engine answers token prompts only: input_ids is missing or empty")
        for token_id in value:
            if not isinstance(token_id, int) or not 0 <= token_id < self.size:
                raise BadRequestError(
                    f"input_ids holds {token_id!r}, which the vocabulary of {self.size} does not have"
                )
        return list(value)

    def _sample(self, said: Answer, prompt: list[int], body: dict[str, Any], kinds: dict[Kind, Fault]) -> Sampled:
        key = tuple(prompt)
        variation = self._seen.get(key, 0)
        self._seen[key] = variation + 1
        if Kind.SEEDED in kinds and isinstance(body.get("seed"), int):
            variation = body["seed"]
        elif body.get("temperature") == 0 and Kind.RESTLESS not in kinds:
            variation = 0
        thought = f"  {said.thought(variation)}  " if Kind.PADDED in kinds else said.thought(variation)
        text = self.dialect.write(said, thought)
        end = self.tokenizer.token_to_id(self.dialect.end(said))
        start = text.index(thought)
        stopped = Kind.STOPPED in kinds
        if stopped:
            ids = self._encode(text[: start + len(thought) // 2])
        elif Kind.SPELLED in kinds:
            ids = [*self._spelled(text), end]
        else:
            ids = [*self._tokens(text, start, len(thought)), end]
        reason = "stop"
        budget = body.get("max_completion_tokens") or body.get("max_tokens")
        cut = len(ids) // 2 if Kind.TRUNCATE in kinds or Kind.ABORT in kinds else budget
        if isinstance(cut, int) and cut < len(ids):
            ids, reason = ids[:cut], "abort" if Kind.ABORT in kinds else "length"
        # special tokens within a turn are its syntax; only the one that ends it is not part of its text
        closed = reason == "stop" and not stopped
        text = self.tokenizer.decode(ids[:-1] if closed else ids, skip_special_tokens=False)
        if Kind.DROP_TOKEN in kinds:
            del ids[len(ids) // 2]
        if Kind.SWAP_TOKEN in kinds:
            middle = len(ids) // 2
            ids[middle] = next(other for other in range(self.size) if other not in (ids[middle], end))
        told = len(ids) + _by(kinds.get(Kind.COMPLETION_TOKENS))
        return Sampled(text, ids, reason, told, told + _by(kinds.get(Kind.USAGE)))

    def _tokens(self, text: str, start: int, length: int) -> list[int]:
        """Ids of `text`, with one word of the thought at `start` cut where the tokenizer would not cut it."""
        whole = self._encode(text)
        for at in range(start + 1, start + length):
            if text[at - 1].isalpha() and text[at].isalpha():
                cut = [*self._encode(text[:at]), *self._encode(text[at:])]
                if cut != whole and self.tokenizer.decode(cut, skip_special_tokens=False) == text:
                    return cut
        return whole

    def _spelled(self, text: str) -> list[int]:
        """Ids of `text` in which no control token stands: its names are cut in two before they are encoded."""
        pieces = [text]
        for name in self.dialect.checkpoint.special:
            pieces = [part for piece in pieces for part in piece.replace(name, f"{name[:2]}\0{name[2:]}").split("\0")]
        return [token_id for piece in pieces for token_id in self._encode(piece)]

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _entries(self, prompt: list[int], ids: list[int], kinds: dict[Kind, Fault]) -> list[list[Any]]:
        before = [prompt[-1], *ids]
        entries: list[list[Any]] = [[_logprob(before[at], token_id), token_id, None] for at, token_id in enumerate(ids)]
        seeded = kinds.get(Kind.SEEDED)
        if seeded is not None and seeded.value is not None:
            entries = [[-seeded.value, token_id, None] for token_id in ids]
        if Kind.LOGPROBS in kinds:
            entries[len(entries) // 2][0] = None
        return entries


def _dialect(directory: Path) -> Dialect:
    told = directory / "config.json"
    entries = json.loads(told.read_text(encoding="utf-8")) if told.is_file() else {}
    name = entries.get(MARK) or (directory.name if directory.name in DIALECTS else "qwen3")
    if name not in DIALECTS:
        raise ValueError(f"{told}: {MARK} = {name!r}; the scripted engine speaks {', '.join(DIALECTS)}")
    return DIALECTS[name]


def _logprob(before: int, token_id: int) -> float:
    """A made-up log-prob that depends on two neighbours only, so that scoring again gives the same."""
    return -((before * 31 + token_id * 17) % 97 + 1) / 1000


def _by(fault: Fault | None) -> int:
    if fault is None:
        return 0
    return 1 if fault.value is None else int(fault.value)


def _common(left: list[int], right: list[int]) -> int:
    for at, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return at
    return min(len(left), len(right))
