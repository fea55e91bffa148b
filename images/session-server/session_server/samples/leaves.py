"""v2: which leaves become samples, and who owns the tokens that several of them share.

A leaf stands for one line of the conversation. Retries leave lines behind that nobody continued; training on them would
count the same prompt several times, so the picker drops what was superseded. Both steps can be replaced by a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from session_server.core.matchers import import_function, strict
from session_server.core.tree import Tree
from session_server.core.turn import Turn
from session_server.samples.errors import SampleError
from session_server.samples.sample import Sample, check

OWN_METADATA = frozenset({"accumulated_token_ids", "tito_session_mismatch", "leaf"})
"""Keys of a sample's metadata that an agent's metadata never replaces."""


@dataclass(eq=False)
class Leaf:
    """A leaf of the tree with its path (root first) and its sample."""

    node: Turn
    path: Sequence[Turn]
    sample: Sample


Picker: TypeAlias = Callable[[Sequence[Leaf], Tree], Sequence[Leaf]]
"""(leaves in the order of commits, tree) -> the ones to keep, the same objects."""

Postprocessor: TypeAlias = Callable[[Sequence[Leaf], Mapping[str, Any]], None]
"""(kept leaves, session metadata) -> changes the leaves' samples in place."""


def keep_all(leaves: Sequence[Leaf], tree: Tree) -> Sequence[Leaf]:
    """Every leaf."""
    return leaves


def drop_retries(leaves: Sequence[Leaf], tree: Tree) -> Sequence[Leaf]:
    """Drop a leaf when its own parent was continued again later; roots stay."""
    return [leaf for leaf in leaves if _not_retried(leaf.path, tree)]


def drop_superseded(leaves: Sequence[Leaf], tree: Tree) -> Sequence[Leaf]:
    """Drop a leaf when any turn of its path was generated again later; a root, when the same request was."""
    return [leaf for leaf in leaves if _not_superseded(leaf.path, tree)]


def _not_retried(path: Sequence[Turn], tree: Tree) -> bool:
    return path[-1].parent is None or not _has_later_sibling(path[-1], tree)


def _not_superseded(path: Sequence[Turn], tree: Tree) -> bool:
    return not any(_superseded(node, tree) for node in path)


def _has_later_sibling(node: Turn, tree: Tree) -> bool:
    return tree.children(node.parent)[-1].seq > node.seq


def _superseded(node: Turn, tree: Tree) -> bool:
    if node.parent is not None:
        return _has_later_sibling(node, tree)
    return any(root.seq > node.seq and _same_request(node, root) for root in tree.children(None))


def _same_request(left: Turn, right: Turn) -> bool:
    first, second = left.delta[:-1], right.delta[:-1]
    return len(first) == len(second) and all(map(strict, first, second))


def share_once(leaves: Sequence[Leaf], metadata: Mapping[str, Any]) -> None:
    """Train every generation once: the leaf with the smallest id owns it, in the others its mask is 0.

    The agent's metadata is merged into every sample, and its `reward`, where given, becomes the sample's.
    """
    owners: dict[int, int] = {}
    for leaf in sorted(leaves, key=lambda leaf: leaf.node.seq):
        for node in leaf.path:
            if owners.setdefault(node.seq, leaf.node.seq) != leaf.node.seq:
                _mask(leaf.sample, node)
    agent = metadata.get("agent")
    if not isinstance(agent, Mapping):
        return
    for leaf in leaves:
        leaf.sample.metadata.update({key: value for key, value in agent.items() if key not in OWN_METADATA})
        if agent.get("reward") is not None:
            leaf.sample.reward = agent["reward"]


def _mask(sample: Sample, node: Turn) -> None:
    first = len(sample.tokens) - sample.response_length
    for position in range(node.completion_start, len(node.tokens)):
        if position - first < sample.response_length:
            sample.loss_mask[position - first] = 0


PICKERS: dict[str, Picker] = {
    "drop_superseded": drop_superseded,
    "drop_retries": drop_retries,
    "keep_all": keep_all,
}
_BEFOREHAND: dict[Picker, Callable[[Sequence[Turn], Tree], bool]] = {
    drop_superseded: _not_superseded,
    drop_retries: _not_retried,
}
"""What a picker of ours asks of a leaf's path alone, so that a leaf it drops need not become a sample first."""

POSTPROCESSORS: dict[str, Postprocessor] = {"share_once": share_once}


@dataclass(frozen=True, slots=True)
class Hooks:
    """The two functions in use, with the names they were configured by."""

    picker_name: str
    postprocessor_name: str
    picker: Picker
    postprocessor: Postprocessor

    @classmethod
    def load(cls, picker: str, postprocessor: str) -> Hooks:
        """Built-in functions by name, others by dotted path.

        Raises:
            ValueError: there is no such function, or it is asynchronous.
        """
        return cls(
            picker,
            postprocessor,
            PICKERS.get(picker) or import_function(picker, known=sorted(PICKERS)),
            POSTPROCESSORS.get(postprocessor) or import_function(postprocessor, known=sorted(POSTPROCESSORS)),
        )

    def may_pick(self, path: Sequence[Turn], tree: Tree) -> bool:
        """Whether the picker may keep the leaf at the end of `path`; a picker of somebody else's sees every leaf."""
        asked = _BEFOREHAND.get(self.picker)
        return asked is None or asked(path, tree)

    def apply(self, leaves: Sequence[Leaf], tree: Tree, metadata: Mapping[str, Any]) -> list[Leaf]:
        """Pick and post-process; what remains is sorted by (path length, node id), largest first.

        Raises:
            SampleError: a hook raised, the picker returned something that is not a subset of what it got, or a sample
                can no longer be trained on.
        """
        try:
            picked = list(self.picker(leaves, tree))
            known = {id(leaf) for leaf in leaves}
            if len({id(leaf) for leaf in picked}) != len(picked) or any(id(leaf) not in known for leaf in picked):
                raise ValueError("the picker must return each of its leaves at most once and nothing else")
            self.postprocessor(picked, metadata)
            for leaf in picked:
                check(leaf.sample)
        except Exception as error:
            raise SampleError(
                f"session sample hook failed (picker={self.picker_name}, "
                f"postprocessor={self.postprocessor_name}): {error}"
            ) from error
        return sorted(picked, key=lambda leaf: (len(leaf.path), leaf.node.seq), reverse=True)
