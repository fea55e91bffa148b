"""Random lives of a session, against a model that is simple enough to be right.

Histories, retries, rollbacks, truncations, engine failures, parallel turns and deletions come in any order. Whatever
happens: no 5xx that the engine did not cause, a refused request changes nothing, prompts continue what is stored, and
there are exactly as many records as 200 replies (on a line: as many as survived).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from session_server.tito.vocabulary import Vocabulary
from session_testing.engine import Held, Raw, Say
from session_testing.server import MORE, SYSTEM, USER, Client, make_settings, serving

TAILS: list[list[dict[str, Any]]] = [
    [MORE],
    [{"role": "tool", "tool_call_id": "c", "content": "22"}],
    [{"role": "tool", "tool_call_id": "c", "content": "22"}, MORE],
    [{"role": "system", "content": "Be brief."}, MORE],
    [{"role": "assistant", "content": "Injected."}, MORE],
    [],
]
CONTEXT: dict[str, Any] = {}


@dataclass
class Node:
    """What the model knows of a turn."""

    history: list[dict[str, Any]]
    parent: Node | None
    cut: bool
    ids: list[int] = field(default_factory=list)

    def line(self) -> list[Node]:
        return [*(self.parent.line() if self.parent else []), self]


class Sessions(RuleBasedStateMachine):
    """One session of one server."""

    version = "v1"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.context = serving(make_settings(CONTEXT["path"], core_version=self.version), CONTEXT["vocabulary"])
        self.client: Client = self.loop.run_until_complete(self.context.__aenter__())
        self.nodes: list[Node] = []
        self.count = 0
        self.session = ""

    def teardown(self) -> None:
        self.loop.run_until_complete(self.context.__aexit__(None, None, None))
        self.loop.close()

    @initialize()
    def open(self) -> None:
        self.session = self.loop.run_until_complete(self.client.session())

    # -- what may happen -----------------------------------------------------------------------------------------

    @rule(index=st.integers(0, 30), tail=st.sampled_from(TAILS), back=st.integers(0, 3))
    def turn(self, index: int, tail: list[dict[str, Any]], back: int) -> None:
        """A request that repeats some stored history, less some messages, with a tail."""
        self.send(self.history(index, back, tail), self.say())

    @rule(index=st.integers(0, 30), tail=st.sampled_from(TAILS), reason=st.sampled_from(["length", "abort"]))
    def cut_turn(self, index: int, tail: list[dict[str, Any]], reason: str) -> None:
        self.count += 1
        say = Say(f"Cut {self.count}", finish=reason, end=None)
        self.send(self.history(index, 0, tail), say)

    @rule(
        index=st.integers(0, 30),
        tail=st.sampled_from(TAILS),
        reply=st.sampled_from(
            [
                Raw(b'{"message":"no"}', 400),
                Raw(b"gone", 503),
                Raw(b"not json"),
                Say(without_meta=("completion_tokens",)),
                Say(meta={"prompt_tokens": 1}),
            ]
        ),
    )
    def engine_fails(self, index: int, tail: list[dict[str, Any]], reply: Say | Raw) -> None:
        before = self.snapshot()
        response = self.chat(self.history(index, 0, tail), reply)
        assert response.status_code in (400, 409, 502, 503), response.text
        assert self.snapshot() == before

    @rule(index=st.integers(0, 30))
    def malformed(self, index: int) -> None:
        before = self.snapshot()
        broken = [*self.history(index, 0, []), {"role": "user", "content": [{"type": "image_url"}]}]
        assert self.chat(broken, None).status_code == 400
        assert self.snapshot() == before

    @rule(index=st.integers(0, 30), count=st.integers(2, 3))
    def parallel(self, index: int, count: int) -> None:
        """Several turns at once: a line takes one, a tree all."""
        history = self.history(index, 0, [MORE])
        if self.expected_status(history) != 200:
            return
        held = [Held(self.say()) for _ in range(count)]
        replies = self.loop.run_until_complete(self.at_once(history, held))
        good = [reply for reply in replies if reply.status_code == 200]
        assert len(good) == (1 if self.version == "v1" else count)
        assert all(reply.status_code in (200, 409) for reply in replies)
        for reply in sorted(good, key=lambda reply: int(reply.json()["id"].removeprefix("chatcmpl-"))):
            self.committed(history, reply.json())

    @rule()
    @precondition(lambda self: self.nodes)
    def delete_and_start_over(self) -> None:
        async def delete() -> tuple[int, int]:
            first = await self.client.http.delete(self.session)
            second = await self.client.chat(self.session, [USER])
            return first.status_code, second.status_code

        assert self.loop.run_until_complete(delete()) == (204, 404)
        self.nodes = []
        self.open()

    # -- what must hold ------------------------------------------------------------------------------------------

    @invariant()
    def records_are_the_models(self) -> None:
        if not self.session:
            return
        document = self.loop.run_until_complete(self.client.view(self.session))
        expected = self.nodes[-1].line() if self.nodes else []
        assert len(document["records"]) == len(expected)
        for record, node in zip(document["records"], expected, strict=True):
            output = [e[1] for e in record["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
            assert record["request"]["input_ids"] + output == node.ids
            if node.parent is not None:
                assert record["request"]["input_ids"][: len(node.parent.ids)] == node.parent.ids
        assert document["metadata"]["accumulated_token_ids"] == (self.nodes[-1].ids if self.nodes else [])
        if self.version == "v2":
            assert len(document["metadata"]["tree"]["nodes"]) == len(self.nodes)

    # -- the model -----------------------------------------------------------------------------------------------

    def say(self) -> Say:
        self.count += 1
        return Say(f"Answer {self.count}.")

    def history(self, index: int, back: int, tail: list[dict[str, Any]]) -> list[dict[str, Any]]:
        stored = self.nodes[index % len(self.nodes)].history if self.nodes else []
        kept = stored[: len(stored) - back] if back else stored
        return [*(kept or [SYSTEM, USER]), *tail]

    def attach(self, history: list[dict[str, Any]]) -> tuple[Node | None, int]:
        """Where the model would attach, and how many generations a line would lose."""
        if self.version == "v2":
            fits = [n for n in self.nodes if history[: len(n.history)] == n.history]
            best = max(fits, key=lambda n: (len(n.history), len(n.line()), self.nodes.index(n)), default=None)
            return best, 0
        line = self.nodes[-1].line() if self.nodes else []
        fits = [n for n in line if history[: len(n.history)] == n.history]
        return (fits[-1] if fits else None), len(line) - len(fits)

    def expected_status(self, history: list[dict[str, Any]]) -> int:
        parent, lost = self.attach(history)
        if lost > 1:
            return 400
        return 409 if parent is not None and parent.cut else 200

    def send(self, history: list[dict[str, Any]], say: Say) -> None:
        before = self.snapshot()
        expected = self.expected_status(history)
        response = self.chat(history, say)
        assert response.status_code == expected, response.text
        if expected == 200:
            self.committed(history, response.json())
        else:
            assert self.snapshot() == before

    def committed(self, history: list[dict[str, Any]], reply: dict[str, Any]) -> None:
        parent, _ = self.attach(history)
        choice = reply["choices"][0]
        sent = next(
            request
            for request in reversed(self.client.engine.requests)
            if len(request["input_ids"]) == choice["meta_info"]["prompt_tokens"] and request["messages"] == history
        )
        output = [entry[1] for entry in choice["meta_info"]["output_token_logprobs"]]
        node = Node([*history, choice["message"]], parent, choice["finish_reason"] in ("length", "abort"))
        node.ids = sent["input_ids"] + output
        if self.version == "v1":
            self.nodes = [*(parent.line() if parent else []), node]
        else:
            self.nodes.append(node)

    def chat(self, history: list[dict[str, Any]], reply: Say | Raw | None) -> Any:
        self.client.engine.script = [] if reply is None else [reply]
        return self.loop.run_until_complete(self.client.chat(self.session, history))

    async def at_once(self, history: list[dict[str, Any]], held: list[Held]) -> list[Any]:
        self.client.engine.script = list(held)
        turns = [asyncio.create_task(self.client.chat(self.session, history)) for _ in held]
        expected = held if self.version == "v2" else held[:1]
        for entry in expected:
            await entry.arrived.wait()
        for entry in held:
            entry.release.set()
        return await asyncio.gather(*turns)

    def snapshot(self) -> bytes:
        return self.loop.run_until_complete(self.client.snapshot(self.session))


class Trees(Sessions):
    """The same for v2."""

    version = "v2"


@pytest.mark.parametrize("machine", [Sessions, Trees])
def test_a_session_survives_any_life(machine: type[Sessions], qwen: Vocabulary, qwen_path: Any) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    CONTEXT.update(path=qwen_path, vocabulary=qwen)
    run_state_machine_as_test(machine, settings=settings(max_examples=25, stateful_step_count=15))
