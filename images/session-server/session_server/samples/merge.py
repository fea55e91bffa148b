"""Turns of one path folded into one sample.

What the engine sampled counts once and exactly where it stands in the accumulated ids. A stop token that also opens the
next message appears in both the output and the next prompt; it is cut from the output where the two differ, and never
counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from session_server.core.tokens import TokenIds, begins_with
from session_server.core.turn import Turn
from session_server.samples.errors import SampleError
from session_server.samples.replay import ReplayShape, tile
from session_server.samples.sample import Decode, Sample, Status, cut_end, turn_sample


def path_sample(
    path: Sequence[Turn], *, max_trim_tokens: int, max_seq_len: int | None, decode: Decode, replay: ReplayShape
) -> Sample | None:
    """The sample of `path`; None when `max_seq_len` leaves no sampled token.

    Raises:
        SampleError: a record does not fit the accumulated ids.
    """
    accumulated = path[-1].token_ids
    parts: list[Sample] = []
    shared = _shared(path)
    previous: Turn | None = None
    for index, turn in enumerate(path):
        part = turn_sample(turn, number=index + 1, previous=previous, decode=decode, replay=replay)
        allowed = max_trim_tokens if index + 1 < len(path) else 0
        cut_end(part, _unmatched(turn, accumulated, allowed, number=index + 1, shared=shared[index]), decode=decode)
        parts.append(part)
        previous = turn
    kept = _limit(parts, max_seq_len, decode=decode)
    return _fold(kept, decode=decode, replay=replay) if kept else None


def _shared(path: Sequence[Turn]) -> list[int]:
    """For each turn, how many of its first ids are the last turn's own, not a copy that would have to be compared."""
    shared = [len(path[-1].tokens)]
    for turn, after in zip(reversed(path[:-1]), reversed(path), strict=False):
        shared.append(min(shared[-1], after.tokens.kept) if after.tokens.base is turn.tokens else 0)
    return shared[::-1]


def _unmatched(turn: Turn, accumulated: TokenIds, allowed: int, *, number: int, shared: int) -> int:
    """Number of output ids at the end that the accumulated ids do not have in their place."""
    start = turn.completion_start
    if start > shared and not begins_with(accumulated, turn.token_ids[:start]):
        raise SampleError(f"turn {number}: its prompt is not the start of the accumulated tokens")
    output = turn.tokens.behind(start)
    matched = 0
    for sampled, placed in zip(output, accumulated[start : start + len(output)], strict=False):
        if sampled != placed:
            break
        matched += 1
    unmatched = len(output) - matched
    if unmatched > allowed:
        raise SampleError(
            f"turn {number}: {unmatched} trailing output tokens are not in the accumulated tokens, {allowed} may differ"
        )
    return unmatched


def _limit(parts: list[Sample], max_seq_len: int | None, *, decode: Decode) -> list[Sample]:
    """The turns within `max_seq_len`; the first that exceeds it is cut and marked, what follows is dropped."""
    if max_seq_len is None:
        return parts
    kept: list[Sample] = []
    for part in parts:
        excess = len(part.tokens) - max_seq_len
        if excess <= 0:
            kept.append(part)
            continue
        if part.response_length > excess:
            cut_end(part, excess, decode=decode)
            part.status = Status.TRUNCATED
            kept.append(part)
        break
    return kept


def _fold(parts: Sequence[Sample], *, decode: Decode, replay: ReplayShape) -> Sample:
    merged = parts[0]
    lifecycles = [merged.metadata["lifecycle"]]
    for number, part in enumerate(parts[1:], start=2):
        if merged.status is not Status.COMPLETED or _loses_replay(merged, part):
            break
        _append(merged, part, number=number, decode=decode, replay=replay)
        lifecycles.append(part.metadata["lifecycle"])
    if len(lifecycles) > 1:
        merged.metadata["lifecycle"] = lifecycles
    rows = max(0, len(merged.tokens) - 1)
    merged.routed_experts = None if merged.routed_experts is None else merged.routed_experts[:rows]
    merged.indexer_topk = None if merged.indexer_topk is None else merged.indexer_topk[:rows]
    return merged


def _loses_replay(merged: Sample, part: Sample) -> bool:
    return (merged.routed_experts is not None and part.routed_experts is None) or (
        merged.indexer_topk is not None and part.indexer_topk is None
    )


def _append(merged: Sample, part: Sample, *, number: int, decode: Decode, replay: ReplayShape) -> None:
    if not begins_with(part.tokens, merged.tokens):
        raise SampleError(f"turn {number}: its tokens do not start with those of the turns before it")
    prompt_end = len(part.tokens) - part.response_length
    between = part.tokens[len(merged.tokens) : prompt_end]
    if not between:
        raise SampleError(f"turn {number}: nothing stands between its output and the output before it")
    merged.tokens = part.tokens
    merged.loss_mask += [0] * len(between) + part.loss_mask
    merged.rollout_log_probs += [0.0] * len(between) + part.rollout_log_probs
    merged.response += decode(between.tolist()) + part.response
    merged.status = part.status
    merged.weight_versions += part.weight_versions
    merged.cached_tokens += part.cached_tokens
    merged.total_prompt_tokens += part.total_prompt_tokens
    merged.spec_info = {
        key: merged.spec_info.get(key, 0) + part.spec_info.get(key, 0) for key in {**merged.spec_info, **part.spec_info}
    }
    merged.routed_experts = tile(merged.routed_experts, part.routed_experts, from_checkpoint=replay.from_checkpoint)
    merged.indexer_topk = tile(merged.indexer_topk, part.indexer_topk, from_checkpoint=False)
