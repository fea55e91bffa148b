"""A training sample: ids, mask, log-probs and what belongs to them, and the sample of a single turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from session_server.core.tokens import TokenIds, pack
from session_server.core.turn import Turn
from session_server.samples.errors import SampleError
from session_server.samples.replay import ReplayShape, Rows, read_replay


class Status(StrEnum):
    """How the last generation of a sample ended."""

    PENDING = "pending"
    COMPLETED = "completed"
    TRUNCATED = "truncated"
    ABORTED = "aborted"


_STATUS = {
    "stop": Status.COMPLETED,
    "tool_calls": Status.COMPLETED,
    "length": Status.TRUNCATED,
    "abort": Status.ABORTED,
}

SPEC_COUNTERS = ("spec_accept_token_num", "spec_draft_token_num", "spec_verify_ct")


@dataclass(eq=False)
class Sample:
    """One sample.

    `tokens` `[n_tokens]` is prompt and response; `loss_mask` and `rollout_log_probs` `[response_length]` cover the
    response: 1 and the log-prob on sampled tokens, 0 and 0.0 on what came in between. `routed_experts` and
    `indexer_topk` `[n_tokens - 1, layers, k]` are None where the engine gave none.
    """

    tokens: TokenIds
    loss_mask: list[int]
    rollout_log_probs: list[float]
    response: str
    status: Status
    weight_versions: list[Any] = field(default_factory=list)
    cached_tokens: int = 0
    total_prompt_tokens: int = 0
    spec_info: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    reward: Any = None
    routed_experts: Rows | None = None
    indexer_topk: Rows | None = None

    @property
    def response_length(self) -> int:
        """Number of tokens behind the first prompt."""
        return len(self.loss_mask)


Decode = Callable[[list[int]], str]


def turn_sample(turn: Turn, *, number: int, previous: Turn | None, decode: Decode, replay: ReplayShape) -> Sample:
    """The sample of one turn; `number` counts the turns of the path from 1.

    Raises:
        SampleError: the record has no usable log-probs or replay data.
    """
    choice = orjson.loads(turn.record.response)["choices"][0]
    meta: Mapping[str, Any] = choice["meta_info"]
    output = turn.tokens.behind(turn.completion_start)
    logprobs = [entry[0] for entry in meta["output_token_logprobs"]]
    if any(not isinstance(value, (int, float)) for value in logprobs):
        raise SampleError(f"turn {number}: a sampled token has no log-prob")
    committed = turn.record.committed_at
    latency = meta.get("e2e_latency")
    routed, indexer = read_replay(meta, turn, replay, where=f"turn {number}")
    return Sample(
        tokens=turn.token_ids,
        loss_mask=[1] * len(output),
        rollout_log_probs=[float(value) for value in logprobs],
        response=decode(output.tolist()),
        status=_STATUS.get(turn.finish_reason or "", Status.PENDING),
        weight_versions=[meta["weight_version"]] if meta.get("weight_version") is not None else [],
        cached_tokens=_count(meta, "cached_tokens"),
        total_prompt_tokens=_count(meta, "prompt_tokens"),
        spec_info={key: _count(meta, key) for key in SPEC_COUNTERS if key in meta},
        metadata={
            "lifecycle": {
                "t0": committed - latency if isinstance(latency, (int, float)) else None,
                "t1": committed,
                "turn": number,
                "req_ts": turn.record.requested_at,
                "prev_t1": None if previous is None else previous.record.committed_at,
            }
        },
        routed_experts=routed,
        indexer_topk=indexer,
    )


def _count(meta: Mapping[str, Any], key: str) -> int:
    value = meta.get(key)
    return value if isinstance(value, int) else 0


def cut_end(sample: Sample, dropped: int, *, decode: Decode) -> None:
    """Drop the last `dropped` tokens of a single turn's sample, all of them sampled ones.

    Replay rows stay: the next turn's rows may continue them. They are cut to the tokens once, after merging.
    """
    if dropped <= 0:
        return
    kept = sample.response_length - dropped
    sample.tokens = pack(sample.tokens[: len(sample.tokens) - dropped])
    sample.loss_mask = sample.loss_mask[:kept]
    sample.rollout_log_probs = sample.rollout_log_probs[:kept]
    sample.response = decode(sample.tokens[len(sample.tokens) - kept :].tolist())


def check(sample: Sample) -> None:
    """Refuse a sample that a hook left in a shape which cannot be trained on.

    Raises:
        ValueError: naming the field, what it is and what it should be.
    """
    if not isinstance(sample.status, Status):
        raise ValueError(f"status is {sample.status!r}, expected a Status: {', '.join(Status)}")
    if any(type(token) is not int or token < 0 for token in sample.tokens):
        raise ValueError("tokens are not token ids")
    if any(value not in (0, 1) for value in sample.loss_mask):
        raise ValueError("loss_mask has other values than 0 and 1")
    if any(not isinstance(value, (int, float)) or not math.isfinite(value) for value in sample.rollout_log_probs):
        raise ValueError("rollout_log_probs are not finite numbers")
    if not len(sample.loss_mask) == len(sample.rollout_log_probs) <= len(sample.tokens):
        raise ValueError(
            f"loss_mask has {len(sample.loss_mask)} entries and rollout_log_probs {len(sample.rollout_log_probs)}, "
            f"with {len(sample.tokens)} tokens; every token behind the first prompt needs one of both"
        )
    if isinstance(sample.reward, float) and not math.isfinite(sample.reward):
        raise ValueError(f"reward is {sample.reward}")
