"""The tree of a v2 session: one node per generation, the branches that the agent caused, and no others.

Replies that the client never read are among them: the number of their nodes is known where the server had begun to
answer, and bounded where a race between the client's going and the server's recording decides.

A server that forks where it should extend multiplies the samples of a training run; a node that is missing is a turn
that nobody will train on. Both are seen by comparing the tree with the agent's own account.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from runner.agents.records import Record, Tree, TreeNode
from runner.agents.transcript import Transcript
from runner.oracle.finding import Finding, hard
from runner.oracle.kept import lost_reply

CHECK: Final = "tree"


def check_tree(tree: Tree | None, records: list[Record], transcript: Transcript) -> list[Finding]:
    """All that must hold of the tree; empty when it does."""
    if tree is None:
        return [hard(CHECK, "absent", "metadata.tree is absent, although this is a v2 server")]
    if duplicates := _duplicates(tree):
        return [hard(CHECK, "response_id", f"response ids are not unique in the tree: {', '.join(duplicates)}")]
    nodes = {node.response_id: node for node in tree.nodes if node.response_id is not None}
    return [
        *_nodes(tree, nodes, transcript),
        *_unseen(tree, nodes, transcript),
        *_parents(nodes, transcript),
        *_active(tree, nodes, records),
    ]


def _duplicates(tree: Tree) -> list[str]:
    counts = Counter(str(node.response_id) for node in tree.nodes)
    return sorted(name for name, count in counts.items() if count > 1)


def _caused(transcript: Transcript) -> set[str]:
    """Ids of the replies that the client knows of: those it got, and those that it saw in the records alone."""
    caused = {turn.response_id for turn in transcript.turns}
    caused |= {rejected.response_id for turn in transcript.turns for rejected in turn.rejected}
    return caused | {name for unseen in transcript.unseen if (name := lost_reply(unseen, transcript.turns))}


def _nodes(tree: Tree, nodes: dict[str, TreeNode], transcript: Transcript) -> list[Finding]:
    """Every reply has its node; the leaves follow."""
    findings = [
        hard(CHECK, "lost_node", f"reply {name!r} has no node in the tree")
        for name in sorted(_caused(transcript) - set(nodes))
    ]
    parents = {node.parent for node in tree.nodes}
    expected = {node.id for node in tree.nodes if node.id not in parents}
    have = {leaf.node_id for leaf in tree.leaves}
    if have != expected:
        message = f"the leaves are {sorted(have)}, but the nodes without children are {sorted(expected)}"
        findings.append(hard(CHECK, "leaves", message))
    return findings


def _unseen(tree: Tree, nodes: dict[str, TreeNode], transcript: Transcript) -> list[Finding]:
    """There is no node without a reply, but for as many as the client gave up, under the turns where it asked."""
    ids = {turn.turn: turn.response_id for turn in transcript.turns}
    caused = _caused(transcript)
    least: Counter[int | None] = Counter()
    most: Counter[int | None] = Counter()
    for unseen in transcript.unseen:
        if lost_reply(unseen, transcript.turns) is None:
            parent = nodes.get(ids[unseen.parent]) if unseen.parent is not None else None
            place = parent.id if parent is not None else None
            least[place] += unseen.recorded
            most[place] += 1
    unknown: dict[int | None, list[int]] = {}
    for node in tree.nodes:
        if node.response_id not in caused:
            unknown.setdefault(node.parent, []).append(node.id)
    extra = [node for place, found in unknown.items() for node in found[most[place] :]]
    findings: list[Finding] = []
    if extra:
        message = f"the tree has nodes that no request of the agent caused: {extra} ({len(tree.nodes)} nodes in all)"
        findings.append(hard(CHECK, "extra_node", message))
    for place, number in least.items():
        have = len(unknown.get(place, []))
        if have < number:
            where = "as roots" if place is None else f"under node {place}"
            message = (
                f"{number} replies {where} were begun with 200 and not read, and {have} nodes are there for them: "
                f"a generation is lost"
            )
            findings.append(hard(CHECK, "lost_node", message))
    return findings


def _parents(nodes: dict[str, TreeNode], transcript: Transcript) -> list[Finding]:
    """Each reply hangs where the agent asked: rollbacks and retries are siblings, nothing else branches."""
    findings: list[Finding] = []
    ids = {turn.turn: turn.response_id for turn in transcript.turns}
    asked = [
        (turn.turn, turn.parent, name)
        for turn in transcript.turns
        for name in (turn.response_id, *(rejected.response_id for rejected in turn.rejected))
    ]
    asked += [
        (unseen.turn, unseen.parent, name)
        for unseen in transcript.unseen
        if (name := lost_reply(unseen, transcript.turns))
    ]
    for turn, parent, name in asked:
        wanted = nodes.get(ids[parent]) if parent is not None else None
        expected = wanted.id if wanted is not None else None
        node = nodes.get(name)
        if node is not None and node.parent != expected:
            message = (
                f"turn {turn}: node {node.id} hangs under {node.parent}, expected {expected} (the reply of turn "
                f"{parent})"
            )
            findings.append(hard(CHECK, "branch", message, turn=turn))
    return findings


def _active(tree: Tree, nodes: dict[str, TreeNode], records: list[Record]) -> list[Finding]:
    """The records are a chain of parents from a root to one of the leaves."""
    if not records:
        return []
    path = [nodes.get(record.response.id) for record in records]
    if any(node is None for node in path):
        lost = [record.response.id for record, node in zip(records, path, strict=True) if node is None]
        return [hard(CHECK, "active_path", f"records without a node in the tree: {', '.join(lost)}")]
    chain = [node for node in path if node is not None]
    expected = [None, *(node.id for node in chain[:-1])]
    have = [node.parent for node in chain]
    if have != expected:
        message = f"the active path is no chain of parents: nodes {[n.id for n in chain]} have parents {have}"
        return [hard(CHECK, "active_path", message)]
    way = [node.id for node in chain]
    if not any(leaf.node_id == way[-1] and leaf.path_node_ids == way for leaf in tree.leaves):
        return [hard(CHECK, "active_path", f"the active path {way} does not end in a leaf that has this path")]
    return []
