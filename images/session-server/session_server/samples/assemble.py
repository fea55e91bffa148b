"""A session's samples: one for a line, one per picked leaf for a tree. Reads the session, never changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from session_server.core.session import Session
from session_server.core.tree import Tree
from session_server.core.turn import Turn
from session_server.samples.leaves import Hooks, Leaf
from session_server.samples.merge import path_sample
from session_server.samples.replay import ReplayShape
from session_server.samples.sample import Sample
from session_server.tito.codec import Codec
from session_server.tito.verdicts import Verdicts
from session_server.wire.session import metadata as session_metadata


@dataclass(frozen=True, slots=True)
class Assembled:
    """Samples with the session's metadata; `empty_reason` says why there are none:

    `no_records`, `all_truncated` (nothing sampled is left within the limit), or `none_picked` (by the picker).
    """

    samples: Sequence[Sample]
    metadata: dict[str, Any]
    empty_reason: str | None
    with_reward: bool


@dataclass(frozen=True, slots=True)
class Assembler:
    """What assembling needs beside the session. `with_messages` adds the last turn's messages to each sample."""

    codec: Codec
    verdicts: Verdicts
    hooks: Hooks
    replay: ReplayShape
    with_messages: bool

    def assemble(self, session: Session, *, max_seq_len: int | None, agent: dict[str, Any] | None) -> Assembled:
        """The samples of `session`; `agent` is the driver's metadata, which only a tree carries.

        Raises:
            SampleError: the records do not make samples, or a hook failed.
        """
        state = session.state
        document = session_metadata(state, max_trim_tokens=self.codec.family.max_trim_tokens, verdicts=self.verdicts)
        is_tree = isinstance(state, Tree)
        if is_tree and agent is not None:
            document["agent"] = agent
        if state.tip is None:
            return Assembled((), document, "no_records", is_tree)
        if isinstance(state, Tree):
            leaves = self._leaves(state, max_seq_len)
            samples = [leaf.sample for leaf in self.hooks.apply(leaves, state, document)] if leaves else []
            empty = "none_picked" if leaves else "all_truncated"
        else:
            sample = self._path(state.turns, max_seq_len)
            samples, empty = [] if sample is None else [sample], "all_truncated"
        return Assembled(samples, document, None if samples else empty, is_tree)

    def _path(self, path: Sequence[Turn], max_seq_len: int | None) -> Sample | None:
        sample = path_sample(
            path,
            max_trim_tokens=self.codec.family.max_trim_tokens,
            max_seq_len=max_seq_len,
            decode=self.codec.vocabulary.decode,
            replay=self.replay,
        )
        if sample is not None and self.with_messages:
            last = path[-1].record
            sample.metadata["messages"] = [
                *orjson.loads(last.request.content())["messages"],
                orjson.loads(last.response)["choices"][0]["message"],
            ]
        return sample

    def _leaves(self, tree: Tree, max_seq_len: int | None) -> list[Leaf]:
        leaves: list[Leaf] = []
        for node in tree.leaves():
            path = node.path()
            if not self.hooks.may_pick(path, tree):
                continue
            sample = self._path(path, max_seq_len)
            if sample is None:
                continue
            sample.metadata["accumulated_token_ids"] = node.token_ids.tolist()
            sample.metadata["leaf"] = {
                "node_id": node.seq,
                "parent": None if node.parent is None else node.parent.seq,
                "path_node_ids": [turn.seq for turn in path],
                "response_id": node.response_id,
            }
            verdict = self.verdicts.of(node)
            if verdict is not None:
                sample.metadata["tito_session_mismatch"] = verdict
            leaves.append(Leaf(node, path, sample))
        return leaves
