"""Samples on the wire: safetensors with a JSON header tensor, or plain JSON for people and small tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
from safetensors.numpy import save

from session_server.samples.assemble import Assembled
from session_server.samples.sample import Sample

SAFETENSORS = "application/octet-stream"
META = "_samples_meta"


def as_safetensors(assembled: Assembled) -> bytes:
    """`_samples_meta` (uint8, compact JSON) and one tensor `<field>.<i>` per array of sample `i`."""
    tensors: dict[str, npt.NDArray[Any]] = {}
    for index, sample in enumerate(assembled.samples):
        for name, array in _arrays(sample).items():
            if array is not None:
                tensors[f"{name}.{index}"] = np.ascontiguousarray(array)
    header = {
        "samples": [_header(sample, with_reward=assembled.with_reward) for sample in assembled.samples],
        "session_metadata": assembled.metadata,
        "empty_reason": assembled.empty_reason,
    }
    tensors[META] = np.frombuffer(orjson.dumps(header), dtype=np.uint8)
    return save(tensors)


def as_json(assembled: Assembled) -> bytes:
    """The same as one JSON document, the arrays as lists inside each sample."""
    document = {
        "samples": [
            {**_header(sample, with_reward=assembled.with_reward), **_lists(sample)} for sample in assembled.samples
        ],
        "session_metadata": assembled.metadata,
        "empty_reason": assembled.empty_reason,
    }
    return orjson.dumps(document)


def _arrays(sample: Sample) -> dict[str, npt.NDArray[Any] | None]:
    return {
        "tokens": np.asarray(sample.tokens, dtype=np.int64),
        "loss_mask": np.asarray(sample.loss_mask, dtype=np.uint8),
        "rollout_log_probs": np.asarray(sample.rollout_log_probs, dtype=np.float64),
        "rollout_routed_experts": sample.routed_experts,
        "rollout_indexer_topk": sample.indexer_topk,
    }


def _lists(sample: Sample) -> dict[str, Any]:
    return {name: None if array is None else array.tolist() for name, array in _arrays(sample).items()}


def _header(sample: Sample, *, with_reward: bool) -> dict[str, Any]:
    header: dict[str, Any] = {
        "response": sample.response,
        "response_length": sample.response_length,
        "status": sample.status.value,
        "weight_versions": sample.weight_versions,
        "prefix_cache_info": {
            "cached_tokens": sample.cached_tokens,
            "total_prompt_tokens": sample.total_prompt_tokens,
        },
        "spec_info": sample.spec_info,
        "metadata": sample.metadata,
        "nulls": [name for name, array in _arrays(sample).items() if array is None],
    }
    if with_reward:
        header["reward"] = sample.reward
    return header
