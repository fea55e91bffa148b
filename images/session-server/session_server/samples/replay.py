"""Routing replay: which experts, and which indexer entries, the engine used for every token.

The engine sends rows of 32-bit integers in base64, either for the whole sequence or from the last stored token on. In
the second form the rows of all turns of a path must tile the sequence without gap or overlap.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from session_server.core.turn import Turn
from session_server.samples.errors import SampleError

Rows: TypeAlias = npt.NDArray[np.int32]
"""`[n_rows, layers, k]`"""


@dataclass(frozen=True, slots=True)
class ReplayShape:
    """What is known before a reply comes.

    `layers` is the model's number of layers, None when its config does not say. `from_checkpoint`: each turn carries
    only the rows since the last stored token.
    """

    layers: int | None = None
    from_checkpoint: bool = False

    def first_row(self, turn: Turn) -> int:
        """Row at which the data of `turn` starts."""
        if not self.from_checkpoint or turn.parent is None:
            return 0
        return max(0, len(turn.parent.tokens) - 1)


def read_replay(
    meta: Mapping[str, Any], turn: Turn, shape: ReplayShape, *, where: str
) -> tuple[Rows | None, Rows | None]:
    """Routed experts and indexer top-k of one reply.

    Raises:
        SampleError: the data is not what it should be.
    """
    indexer_layers = meta.get("indexer_topk_num_layers")
    # the last token was sampled but not run through the model, so it has no row
    expected = len(turn.tokens) - 1
    return (
        _rows(
            meta.get("routed_experts"),
            rows=expected - shape.first_row(turn),
            layers=shape.layers,
            where=f"{where}: routed_experts",
        ),
        _rows(
            meta.get("indexer_topk"),
            rows=expected,
            layers=indexer_layers if isinstance(indexer_layers, int) else shape.layers,
            where=f"{where}: indexer_topk",
        ),
    )


def _rows(value: object, *, rows: int, layers: int | None, where: str) -> Rows | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise SampleError(f"{where} is not base64 text")
    try:
        raw = base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise SampleError(f"{where} is not base64: {error}") from error
    if layers is None:
        raise SampleError(f"{where}: the number of layers is unknown; config.json of the tokenizer directory has none")
    if len(raw) % (4 * layers * max(1, rows)) or (rows <= 0 and raw):
        raise SampleError(f"{where} has {len(raw)} bytes, which do not make {rows} rows of {layers} layers")
    return np.frombuffer(raw, dtype="<i4").astype(np.int32).reshape(max(0, rows), layers, -1) if raw else None


def tile(earlier: Rows | None, later: Rows | None, *, from_checkpoint: bool) -> Rows | None:
    """Rows of two successive turns as one: the later ones alone where they cover everything, else both in a row."""
    if earlier is None or later is None:
        return None
    return np.concatenate([earlier, later]) if from_checkpoint else later
