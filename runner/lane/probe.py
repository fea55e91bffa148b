"""Asks an engine, before any lane begins, for what every lane needs of it, and whether it repeats itself.

Engines differ by version and by mode in what they return. Without this a missing field shows up as a failed check of
some turn, and the session server gets the blame. Repeating is tried and not believed: an engine may take a seed and
ignore it. Requests go one at a time, each under a routing key of its own: none is taken for a turn of a session.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from runner.agents.records import JsonObject, excerpt
from runner.agents.session import ENGINE, ServiceError
from runner.lane.engine import ask
from runner.oracle.tokens import Tokens
from runner.verdict.engine import Capability, Determinism, EngineFacts, Seen

PROMPT: Final = "The weather of the coming week, told day by day and city by city, in no particular order:"
"""Far from what a model was tuned to, so that it has much to choose from."""
LENGTH: Final = 24
"""Tokens of one sampled text."""
TEMPERATURES: Final = (1.0, 2.0)
"""Tried in this order until the answer is clear."""
CHANCE: Final = 1e-6
"""Equal texts that are likelier than this by themselves say nothing about the seed."""
SEEDS: Final = (20_011, 20_011, 20_021)
"""The same twice, another once."""


class _Reading(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Meta(_Reading):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    output_token_logprobs: list[tuple[float | None, int, str | None]] | None = None


class _Choice(_Reading):
    meta_info: _Meta | None = None


class _Completion(_Reading):
    choices: list[_Choice] = Field(min_length=1)


class _ScoredMeta(_Reading):
    input_token_logprobs: list[tuple[float | None, int, str | None]]


class _Scored(_Reading):
    meta_info: _ScoredMeta


class _Server(_Reading):
    version: str | None = None
    model_path: str | None = None


class Probe:
    """Asks the engine behind `http` (whose base_url it is); `tokens` is the family's own tokenizer."""

    def __init__(self, http: httpx.AsyncClient, tokens: Tokens) -> None:
        self._http = http
        self._prompt = tokens.encode(PROMPT)
        self._asked = 0

    async def run(self, family: str) -> EngineFacts:
        """Everything that can be found out. Raises ServiceError when the engine does not answer at all."""
        begun, at = time.monotonic(), datetime.now(UTC)
        version, model = await self._self_description()
        capabilities = [
            *await self._chat(),
            await self._scoring(),
            await self._optional("stream", "/v1/chat/completions", self._body(stream=True), _streams),
            await self._optional("tokenize", "/tokenize", {"model": "default", "prompt": PROMPT}, _tokenizes),
        ]
        able = all(capability.available for capability in capabilities if capability.needed)
        return EngineFacts(
            family=family,
            version=version,
            model=model,
            asked_at=at,
            capabilities=capabilities,
            determinism=await self._determinism() if able else None,
            seconds=time.monotonic() - begun,
        )

    async def _self_description(self) -> tuple[str | None, str | None]:
        for path in ("/server_info", "/get_server_info"):
            status, answer = await ask(self._http, path)
            try:
                server = _Server.model_validate_json(answer) if status == httpx.codes.OK else None
            except ValidationError:
                continue
            if server is not None:
                return server.version, server.model_path
        return None, None

    def _body(self, **more: JsonValue) -> JsonObject:
        """A completion of the probe's prompt. The messages are other ones: ids that are ignored must show."""
        ids: list[JsonValue] = list(self._prompt)
        return {
            "model": "default",
            "messages": [{"role": "user", "content": "Hello"}],
            "input_ids": ids,
            "max_tokens": LENGTH,
            "temperature": 0,
            "ignore_eos": True,
            **more,
        }

    async def _post(self, path: str, body: JsonObject) -> tuple[int, bytes]:
        self._asked += 1
        return await ask(self._http, path, body, key=f"probe-{self._asked}")

    async def _sample(self, **more: JsonValue) -> tuple[_Meta | None, str]:
        """The account of one completion, and what was answered in words where it has none."""
        status, answer = await self._post(
            "/v1/chat/completions", self._body(logprobs=True, return_meta_info=True, **more)
        )
        if status != httpx.codes.OK:
            return None, f"{status}: {excerpt(answer)}"
        try:
            meta = _Completion.model_validate_json(answer).choices[0].meta_info
        except ValidationError as error:
            return None, f"a reply of another shape: {_first(error)}"
        return meta, "a reply without choices[0].meta_info"

    async def _chat(self) -> list[Capability]:
        meta, answered = await self._sample()
        if meta is None:
            return [
                Capability(name=name, needed=True, available=False, seen=answered)
                for name in ("token_ids", "logprobs", "input_ids")
            ]
        entries = meta.output_token_logprobs
        found = len(entries or [])
        probabilities = sum(1 for entry in entries or [] if entry[0] is not None and math.isfinite(entry[0]))
        ids = entries is not None and found > 0 and found == meta.completion_tokens
        return [
            Capability(
                name="token_ids",
                needed=True,
                available=ids,
                seen=f"{found} ids of {meta.completion_tokens} sampled tokens"
                if entries is not None
                else "no output_token_logprobs in meta_info",
            ),
            Capability(
                name="logprobs",
                needed=True,
                available=ids and probabilities == found,
                seen=f"{probabilities} log-probs for {found} ids",
            ),
            Capability(
                name="input_ids",
                needed=True,
                available=meta.prompt_tokens == len(self._prompt),
                seen=f"{len(self._prompt)} prompt ids were sent, {meta.prompt_tokens} were read",
            ),
        ]

    async def _scoring(self) -> Capability:
        start = len(self._prompt) // 2
        ids: list[JsonValue] = list(self._prompt)
        body: JsonObject = {
            "input_ids": ids,
            "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": start,
        }
        status, answer = await self._post("/generate", body)
        available, seen = False, f"{status}: {excerpt(answer)}"
        if status == httpx.codes.OK:
            try:
                scored = _Scored.model_validate_json(answer).meta_info.input_token_logprobs
            except ValidationError as error:
                seen = f"scores of another shape: {_first(error)}"
            else:
                available = [entry[1] for entry in scored] == self._prompt[start:] and all(
                    entry[0] is not None for entry in scored[1:]
                )
                seen = f"{len(scored)} scores for {len(self._prompt) - start} ids"
        return Capability(name="scoring", needed=True, available=available, seen=seen)

    async def _optional(self, name: str, path: str, body: JsonObject, works: Callable[[bytes], bool]) -> Capability:
        status, answer = await self._post(path, body)
        available = status == httpx.codes.OK and works(answer)
        return Capability(
            name=name,
            needed=False,
            available=available,
            seen="as expected" if available else f"{status}: {excerpt(answer)}",
        )

    async def _determinism(self) -> Determinism:
        greedy = (await self._text()).ids == (await self._text()).ids
        for temperature in TEMPERATURES:
            first, second, other = [await self._text(seed=seed, temperature=temperature) for seed in SEEDS]
            found = Determinism(
                same_seed=repeats(first, second, other),
                greedy=Seen.YES if greedy else Seen.NO,
                temperature=temperature,
                tokens=len(first.ids),
                other_seed_differs=other.ids != first.ids,
                chance=first.chance,
            )
            if found.same_seed is not Seen.NOT_KNOWN:
                break
        return found

    async def _text(self, **more: JsonValue) -> Text:
        meta, answered = await self._sample(**more)
        if meta is None or meta.output_token_logprobs is None:
            raise ServiceError(ENGINE, f"the engine answered such a request before, and now it does not: {answered}")
        entries = meta.output_token_logprobs
        return Text([entry[1] for entry in entries], math.exp(min(0.0, sum(entry[0] or 0.0 for entry in entries))))


@dataclass(frozen=True)
class Text:
    """One sampled text: its `ids` (`[n_tokens]`), and how probable it was by its own log-probs."""

    ids: list[int]
    chance: float


def repeats(first: Text, second: Text, other: Text) -> Seen:
    """Whether the seed decides the text: `first` and `second` have the same one, `other` another.

    Equal texts show it only where chance would hardly have made them, and where another seed made another text.
    """
    if second.ids != first.ids:
        return Seen.NO
    return Seen.YES if other.ids != first.ids and first.chance <= CHANCE else Seen.NOT_KNOWN


def _streams(answer: bytes) -> bool:
    return answer.lstrip().startswith(b"data:") and answer.rstrip().endswith(b"data: [DONE]")


def _tokenizes(answer: bytes) -> bool:
    return b'"tokens"' in answer


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    return f"{'.'.join(map(str, detail['loc'])) or 'the whole body'}: {detail['msg']}"
