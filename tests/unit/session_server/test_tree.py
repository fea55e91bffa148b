"""v2 over HTTP: branches, roots, views; and what a tree never does."""

from __future__ import annotations

import asyncio

import pytest
from session_testing.engine import Held, Raw, Say
from session_testing.server import MORE, SYSTEM, USER, Client

pytestmark = pytest.mark.anyio


def shape(document: dict) -> list[tuple[int, int | None]]:
    return [(node["id"], node["parent"]) for node in document["metadata"]["tree"]["nodes"]]


async def test_a_dialogue_is_a_chain_with_one_leaf(v2: Client) -> None:
    session = await v2.session()
    first = await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    document = await v2.view(session)
    assert shape(document) == [(0, None), (1, 0)]
    assert document["metadata"]["tree"]["leaves"] == [{"node_id": 1, "path_node_ids": [0, 1]}]
    assert len(document["records"]) == 2
    node = document["metadata"]["tree"]["nodes"][1]
    start, end = node["completion_span"]
    assert end == node["num_tokens"] == len(document["metadata"]["accumulated_token_ids"])
    assert document["metadata"]["accumulated_token_ids"][:start] == document["records"][1]["request"]["input_ids"]
    assert node["response_id"] == document["records"][1]["response"]["id"]
    assert document["metadata"]["tito_session_mismatch"] == []


async def test_asking_again_makes_a_sibling_and_the_view_shows_the_last_commit(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say("One."), Say("Two."), Say("Three.")]
    first = await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    document = await v2.view(session)
    assert shape(document) == [(0, None), (1, 0), (2, 0)]
    assert [r["response"]["choices"][0]["message"]["content"] for r in document["records"]] == ["One.", "Three."]
    whole = (await v2.http.get(session, params={"view": "tree"})).json()
    assert [r["node_id"] for r in whole["records"]] == [0, 1, 2]
    assert [r["response"]["choices"][0]["message"]["content"] for r in whole["records"]] == ["One.", "Two.", "Three."]


async def test_a_changed_system_prompt_opens_a_new_root_llama_cpp_20623(v2: Client) -> None:
    session = await v2.session()
    first = await v2.said(session, [SYSTEM, USER])
    other = {**SYSTEM, "content": "Request 2."}
    await v2.said(session, [other, USER, first, MORE])
    assert shape(await v2.view(session)) == [(0, None), (1, None)]


async def test_identical_siblings_attach_to_the_latest(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say("Same."), Say("Same.")]
    first = await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    assert shape(await v2.view(session)) == [(0, None), (1, None), (2, 1)]


async def test_a_truncated_generation_is_not_extended_but_its_parent_is(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say("One."), Say("Cut", finish="length", end=None)]
    first = await v2.said(session, [SYSTEM, USER])
    cut = await v2.said(session, [SYSTEM, USER, first, MORE])
    before = await v2.snapshot(session)
    response = await v2.chat(session, [SYSTEM, USER, first, MORE, cut, USER])
    assert response.status_code == 409
    assert response.json()["error"].startswith("truncated generation cannot be extended")
    assert await v2.snapshot(session) == before
    await v2.said(session, [SYSTEM, USER, first, MORE])
    document = await v2.view(session)
    assert [node["truncated"] for node in document["metadata"]["tree"]["nodes"]] == [False, True, False]


async def test_a_failed_request_does_not_move_the_view(v2: Client) -> None:
    session = await v2.session()
    first = await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    before = await v2.snapshot(session)
    v2.engine.script = [Raw(b"{}", 503)]
    assert (await v2.chat(session, [SYSTEM, USER])).status_code == 503
    assert await v2.snapshot(session) == before


async def test_turns_generated_at_the_same_time_all_become_siblings_miles_2293(v2: Client) -> None:
    session = await v2.session()
    first = await v2.said(session, [SYSTEM, USER])
    held = [Held(Say(f"Answer {index}.")) for index in range(4)]
    v2.engine.script = list(held)
    turns = [asyncio.create_task(v2.chat(session, [SYSTEM, USER, first, MORE])) for _ in held]
    for entry in held:
        await entry.arrived.wait()
    for entry in reversed(held):
        entry.release.set()
    replies = await asyncio.gather(*turns)
    assert [reply.status_code for reply in replies] == [200] * 4
    assert shape(await v2.view(session)) == [(0, None), (1, 0), (2, 0), (3, 0), (4, 0)]


async def test_the_node_limit_refuses_with_409_before_the_engine_is_asked(start) -> None:
    async with start(core_version="v2", max_nodes_per_session=2) as client:
        session = await client.session()
        await client.said(session, [SYSTEM, USER])
        await client.said(session, [SYSTEM, USER])
        asked = len(client.engine.requests)
        response = await client.chat(session, [SYSTEM, USER])
        assert response.status_code == 409
        assert response.json()["error"] == "session is full: it holds 2 generations; start a new session"
        assert len(client.engine.requests) == asked


async def test_turns_that_overfill_a_session_together_are_refused_not_lost(start) -> None:
    async with start(core_version="v2", max_nodes_per_session=1) as client:
        session = await client.session()
        held = [Held(), Held()]
        client.engine.script = list(held)
        turns = [asyncio.create_task(client.chat(session, [SYSTEM, USER])) for _ in held]
        for entry in held:
            await entry.arrived.wait()
            entry.release.set()
        replies = await asyncio.gather(*turns)
        assert sorted(reply.status_code for reply in replies) == [200, 409]
        assert len((await client.view(session))["records"]) == 1


async def test_the_tree_view_of_a_linear_session_is_refused_with_a_reason(v1: Client) -> None:
    session = await v1.session()
    response = await v1.http.get(session, params={"view": "tree"})
    assert response.status_code == 400
    assert "needs core version v2" in response.json()["error"]
    assert (await v1.http.get(session, params={"view": "all"})).status_code == 400
