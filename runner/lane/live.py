"""Checks that ask the engine once a session is over: what it would write, and how it scores what was kept.

They need the engine's own address, which not every environment gives to the verifier; without it they are left out. One
sample of a cell is enough, since they cost a pass over the whole conversation.
"""

from __future__ import annotations

import httpx
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from runner.agents.records import JsonObject, OutputToken, SessionView, excerpt
from runner.agents.transcript import Transcript
from runner.base.settings import EngineKind
from runner.lane.engine import ask
from runner.oracle.finding import Finding, Severity, hard
from runner.oracle.measure import Measure
from runner.oracle.parity import CHECK as PARITY
from runner.oracle.parity import check_parity
from runner.oracle.render import as_sent
from runner.oracle.scoring import CHECK as SCORING
from runner.oracle.scoring import check_scoring, scored_range
from runner.plan.model import PlannedCell


class _Tokenized(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)
    tokens: list[int]


class _Meta(BaseModel):
    model_config = ConfigDict(extra="ignore")
    input_token_logprobs: list[tuple[float | None, int, str | None]] = Field(min_length=1)


class _Scored(BaseModel):
    model_config = ConfigDict(extra="ignore")
    meta_info: _Meta


class LiveChecks:
    """Asks the engine behind `http` (whose base_url it is)."""

    def __init__(self, http: httpx.AsyncClient, kind: EngineKind, measure: Measure) -> None:
        self._http = http
        self._precise = kind is EngineKind.CPU
        self._measure = measure

    async def check(self, view: SessionView, transcript: Transcript, cell: PlannedCell) -> list[Finding]:
        """Both checks over one session. Raises ServiceError when the engine cannot be asked."""
        if not view.records:
            return []
        return [*await self._parity(view, transcript), *await self._scoring(view, transcript, cell)]

    async def _parity(self, view: SessionView, transcript: Transcript) -> list[Finding]:
        request = view.records[0].request
        messages: list[JsonValue] = list(request.messages)
        body: JsonObject = {"model": "default", "messages": messages}
        if request.tools:
            tools: list[JsonValue] = list(as_sent(request.tools, transcript.tools))
            body["tools"] = tools
        status, answer = await ask(self._http, "/tokenize", body)
        try:
            if status != httpx.codes.OK:
                raise ValueError(f"{status}: {excerpt(answer)}")
            rendered = _Tokenized.model_validate_json(answer).tokens
        except ValueError as error:
            message = f"the engine does not say what it would write for the first request: {error}"
            return [Finding(PARITY, "not_told", Severity.NOTE, message)]
        return check_parity(view.records[0], rendered, self._measure.tokens)

    async def _scoring(self, view: SessionView, transcript: Transcript, cell: PlannedCell) -> list[Finding]:
        path = transcript.path
        if [record.response.id for record in view.records] != [turn.response_id for turn in path]:
            return []  # the history check has said so, and there is nothing to hold the scores against
        whole, start = scored_range(view.records)
        ids: list[JsonValue] = list(whole)
        body: JsonObject = {
            "input_ids": ids,
            "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": start,
        }
        status, answer = await ask(self._http, "/generate", body)
        if status != httpx.codes.OK:
            return [hard(SCORING, "refused", f"the engine refuses to score the kept ids: {status}: {excerpt(answer)}")]
        try:
            scored = _Scored.model_validate_json(answer).meta_info.input_token_logprobs
        except ValidationError as error:
            return [hard(SCORING, "refused", f"the engine's scores are not what was asked for: {error}")]
        return check_scoring(
            view.records,
            path,
            [OutputToken(*entry) for entry in scored],
            temperature=cell.temperature,
            precise=self._precise,
            tokens=self._measure.tokens,
        )
