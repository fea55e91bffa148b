"""The samples route: tensors, masks, limits, leaves, hooks."""

from __future__ import annotations

import base64
import sys
import types
from typing import Any

import numpy as np
import orjson
import pytest
from safetensors.numpy import load
from session_server.samples import assemble, leaves, merge
from session_testing.engine import Say
from session_testing.server import MORE, SYSTEM, TOOL, USER, Client

pytestmark = pytest.mark.anyio


async def fetch(client: Client, session: str, **body: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    response = await client.http.post(f"{session}/samples", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/octet-stream"
    tensors = load(response.content)
    return orjson.loads(tensors.pop("_samples_meta").tobytes()), tensors


async def dialogue(client: Client) -> str:
    """A session of two turns: a tool call and an answer."""
    session = await client.session()
    client.engine.script = [Say("", calls=[("call_1", "get_weather", {"location": "Beijing"})]), Say("Sunny.")]
    first = await client.said(session, [SYSTEM, USER], tools=[TOOL])
    result = {"role": "tool", "tool_call_id": "call_1", "content": "22 degrees"}
    await client.said(session, [SYSTEM, USER, first, result], tools=[TOOL])
    return session


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_a_path_is_one_sample_with_ones_on_sampled_tokens_only(start, version: str) -> None:
    async with start(core_version=version) as client:
        session = await dialogue(client)
        meta, tensors = await fetch(client, session)
        document = await client.view(session)
        records = document["records"]
        [sample] = meta["samples"]
        assert tensors["tokens.0"].dtype == np.int64
        assert tensors["loss_mask.0"].dtype == np.uint8
        assert tensors["rollout_log_probs.0"].dtype == np.float64
        assert tensors["tokens.0"].tolist() == document["metadata"]["accumulated_token_ids"]
        prompt = len(records[0]["request"]["input_ids"])
        assert sample["response_length"] == len(tensors["tokens.0"]) - prompt == len(tensors["loss_mask.0"])
        sampled = tensors["tokens.0"][prompt:][tensors["loss_mask.0"] == 1].tolist()
        outputs = [e for r in records for e in r["response"]["choices"][0]["meta_info"]["output_token_logprobs"]]
        assert sampled == [entry[1] for entry in outputs]
        assert tensors["rollout_log_probs.0"][tensors["loss_mask.0"] == 1].tolist() == [e[0] for e in outputs]
        assert set(tensors["rollout_log_probs.0"][tensors["loss_mask.0"] == 0]) == {0.0}
        assert sample["response"] == client.engine.vocabulary.decode(tensors["tokens.0"][prompt:].tolist())
        assert sample["status"] == "completed"
        assert sample["weight_versions"] == ["default", "default"]
        assert sample["prefix_cache_info"]["total_prompt_tokens"] == sum(
            len(record["request"]["input_ids"]) for record in records
        )
        assert sample["nulls"] == ["rollout_routed_experts", "rollout_indexer_topk"]
        first, second = sample["metadata"]["lifecycle"]
        assert (first["turn"], second["turn"]) == (1, 2)
        assert second["prev_t1"] == first["t1"] == records[0]["timestamp"]
        assert first["t0"] == first["t1"] - 0.25 and first["req_ts"] == records[0]["request_timestamp"]
        assert meta["empty_reason"] is None
        assert meta["session_metadata"] == document["metadata"]
        assert ("reward" in sample) == (version == "v2")


async def test_samples_can_be_asked_for_again_and_change_nothing(v2: Client) -> None:
    session = await dialogue(v2)
    before = await v2.snapshot(session)
    assert (await fetch(v2, session))[0] == (await fetch(v2, session))[0]
    assert await v2.snapshot(session) == before


async def test_json_holds_the_same_as_safetensors(v2: Client) -> None:
    session = await dialogue(v2)
    meta, tensors = await fetch(v2, session)
    response = await v2.http.post(f"{session}/samples", headers={"accept": "application/json"})
    [sample] = response.json()["samples"]
    assert sample.pop("tokens") == tensors["tokens.0"].tolist()
    assert sample.pop("loss_mask") == tensors["loss_mask.0"].tolist()
    assert sample.pop("rollout_log_probs") == tensors["rollout_log_probs.0"].tolist()
    assert sample.pop("rollout_routed_experts") is sample.pop("rollout_indexer_topk") is None
    assert sample == meta["samples"][0]


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_a_fresh_session_says_why_it_has_no_samples(start, version: str) -> None:
    async with start(core_version=version) as client:
        meta, tensors = await fetch(client, await client.session())
        assert (meta["samples"], meta["empty_reason"], tensors) == ([], "no_records", {})


async def test_the_first_turn_beyond_max_seq_len_is_cut_and_marked(v1: Client) -> None:
    session = await dialogue(v1)
    _, whole = await fetch(v1, session)
    limit = len(whole["tokens.0"]) - 2
    meta, cut = await fetch(v1, session, max_seq_len=limit)
    assert cut["tokens.0"].tolist() == whole["tokens.0"][:limit].tolist()
    assert cut["loss_mask.0"].tolist() == whole["loss_mask.0"][:-2].tolist()
    assert meta["samples"][0]["status"] == "truncated"


async def test_a_turn_whose_output_is_wholly_beyond_max_seq_len_is_dropped(v1: Client) -> None:
    session = await dialogue(v1)
    records = (await v1.view(session))["records"]
    first = records[0]
    end = len(first["request"]["input_ids"]) + len(
        first["response"]["choices"][0]["meta_info"]["output_token_logprobs"]
    )
    meta, tensors = await fetch(v1, session, max_seq_len=len(records[1]["request"]["input_ids"]))
    assert len(tensors["tokens.0"]) == end
    assert meta["samples"][0]["status"] == "completed"
    meta, tensors = await fetch(v1, session, max_seq_len=1)
    assert (meta["samples"], meta["empty_reason"], tensors) == ([], "all_truncated", {})


async def test_speculative_decoding_counters_are_summed_and_carried(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [
        Say(meta={"spec_accept_token_num": 3, "spec_draft_token_num": 6, "spec_verify_ct": 2}),
        Say(meta={"spec_accept_token_num": 1, "spec_draft_token_num": 3, "spec_verify_ct": 1}),
    ]
    first = await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    meta, _ = await fetch(v2, session)
    assert meta["samples"][0]["spec_info"] == {
        "spec_accept_token_num": 4,
        "spec_draft_token_num": 9,
        "spec_verify_ct": 3,
    }


@pytest.mark.parametrize(("finish", "status"), [("length", "truncated"), ("abort", "aborted"), ("whatever", "pending")])
async def test_the_last_finish_reason_decides_the_status(v1: Client, finish: str, status: str) -> None:
    session = await v1.session()
    v1.engine.script = [Say("Cut", finish=finish)]
    await v1.said(session, [SYSTEM, USER])
    meta, _ = await fetch(v1, session)
    assert meta["samples"][0]["status"] == status


async def test_superseded_lines_are_dropped_even_when_they_were_continued(v2: Client) -> None:
    session = await v2.session()
    v2.engine.script = [Say(f"Answer {index}.") for index in range(5)]
    first = await v2.said(session, [SYSTEM, USER])
    old = await v2.said(session, [SYSTEM, USER, first, MORE])
    await v2.said(session, [SYSTEM, USER, first, MORE, old, USER])
    await v2.said(session, [SYSTEM, USER, first, MORE])
    meta, _ = await fetch(v2, session)
    assert [sample["metadata"]["leaf"]["path_node_ids"] for sample in meta["samples"]] == [[0, 3]]


async def test_a_retried_first_turn_gives_one_sample_but_another_conversation_gives_its_own(v2: Client) -> None:
    session = await v2.session()
    await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, USER])
    await v2.said(session, [SYSTEM, MORE])
    meta, _ = await fetch(v2, session)
    assert [sample["metadata"]["leaf"]["node_id"] for sample in meta["samples"]] == [2, 1]


async def test_drop_retries_looks_at_the_leafs_own_parent_only(start) -> None:
    async with start(core_version="v2", sample_picker="drop_retries") as client:
        session = await client.session()
        client.engine.script = [Say(f"Answer {index}.") for index in range(5)]
        first = await client.said(session, [SYSTEM, USER])
        old = await client.said(session, [SYSTEM, USER, first, MORE])
        await client.said(session, [SYSTEM, USER, first, MORE, old, USER])
        await client.said(session, [SYSTEM, USER, first, MORE])
        await client.said(session, [SYSTEM, USER])
        meta, _ = await fetch(client, session)
        paths = [sample["metadata"]["leaf"]["path_node_ids"] for sample in meta["samples"]]
        assert paths == [[0, 1, 2], [0, 3], [4]]


@pytest.mark.parametrize("name", sorted(leaves.PICKERS))
async def test_a_leaf_that_our_picker_drops_is_not_made_into_a_sample_first(
    start, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As somebody else's picker, which sees every leaf, would pick the same ones."""
    made: list[int] = []
    monkeypatch.setattr(
        assemble, "path_sample", lambda path, **of: made.append(path[-1].seq) or merge.path_sample(path, **of)
    )
    module = types.ModuleType("my_hooks")
    module.pick = lambda given, tree: leaves.PICKERS[name](given, tree)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_hooks", module)
    answers = []
    for picker in (name, "my_hooks:pick"):
        made.clear()
        async with start(core_version="v2", sample_picker=picker) as client:
            session = await client.session()
            first = await client.said(session, [SYSTEM, USER])
            for _ in range(3):
                await client.said(session, [SYSTEM, USER, first, MORE])
            meta, _ = await fetch(client, session)
            picked = sorted(sample["metadata"]["leaf"]["node_id"] for sample in meta["samples"])
            assert made == (picked if picker == name else [1, 2, 3])
            answers.append(picked)
    assert answers[0] == answers[1] == ([1, 2, 3] if name == "keep_all" else [3])


async def test_a_generation_shared_by_two_samples_is_trained_once(start) -> None:
    async with start(core_version="v2", sample_picker="keep_all") as client:
        session = await client.session()
        client.engine.script = [Say(f"Answer {index}.") for index in range(3)]
        first = await client.said(session, [SYSTEM, USER])
        await client.said(session, [SYSTEM, USER, first, MORE])
        await client.said(session, [SYSTEM, USER, first, MORE])
        meta, tensors = await fetch(client, session)
        assert [sample["metadata"]["leaf"]["node_id"] for sample in meta["samples"]] == [2, 1]
        nodes = (await client.view(session))["metadata"]["tree"]["nodes"]
        start_of_first, end_of_first = nodes[0]["completion_span"]
        shared = end_of_first - start_of_first
        assert tensors["loss_mask.1"][:shared].tolist() == [1] * shared
        assert tensors["loss_mask.0"][:shared].tolist() == [0] * shared
        assert tensors["loss_mask.0"][shared:].any()


async def test_the_agents_metadata_reaches_every_sample_but_not_the_servers_own_keys(v2: Client) -> None:
    session = await v2.session()
    await v2.said(session, [SYSTEM, USER])
    meta, _ = await fetch(v2, session, metadata={"reward": 0.5, "events": ["rollback"], "leaf": "mine"})
    [sample] = meta["samples"]
    assert sample["reward"] == 0.5
    assert sample["metadata"]["events"] == ["rollback"]
    assert sample["metadata"]["leaf"]["node_id"] == 0
    assert meta["session_metadata"]["agent"]["leaf"] == "mine"


def pick_twice(leaves: list[Any], tree: object) -> list[Any]:
    return [*leaves, *leaves]


async def test_a_hook_that_breaks_the_contract_is_named_in_a_422(start, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("my_hooks")
    module.pick_twice = pick_twice  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_hooks", module)
    async with start(core_version="v2", sample_picker="my_hooks:pick_twice") as client:
        session = await client.session()
        await client.said(session, [SYSTEM, USER])
        response = await client.http.post(f"{session}/samples")
        assert response.status_code == 422
        assert response.headers["content-type"].startswith("text/plain")
        assert response.text.startswith(
            "session sample hook failed (picker=my_hooks:pick_twice, postprocessor=share_once): "
        )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("loss_mask", [1], "loss_mask has 1 entries and rollout_log_probs "),
        ("loss_mask", [2, 1], "loss_mask has other values than 0 and 1"),
        ("loss_mask", ["x"], "loss_mask has other values than 0 and 1"),
        ("loss_mask", None, "not iterable"),
        ("rollout_log_probs", [float("nan")], "rollout_log_probs are not finite numbers"),
        ("tokens", [-1], "tokens are not token ids"),
        ("tokens", [1], "with 1 tokens"),
        ("status", "done", "status is 'done', expected a Status: pending, completed, truncated, aborted"),
        ("reward", float("nan"), "reward is nan"),
    ],
)
@pytest.mark.parametrize("accept", ["application/octet-stream", "application/json"])
async def test_what_a_hook_spoils_is_named_and_not_sent(
    start, monkeypatch: pytest.MonkeyPatch, field: str, value: object, said: str, accept: str
) -> None:
    hooks = types.ModuleType("my_hooks")
    hooks.spoil = lambda leaves, metadata: [setattr(leaf.sample, field, value) for leaf in leaves]
    monkeypatch.setitem(sys.modules, "my_hooks", hooks)
    async with start(core_version="v2", sample_postprocessor="my_hooks:spoil") as client:
        session = await client.session()
        await client.said(session, [USER])
        response = await client.http.post(f"{session}/samples", headers={"accept": accept})
        assert (response.status_code, said in response.text) == (422, True), response.text


async def test_a_picker_that_keeps_nothing_is_the_reason(start, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = types.ModuleType("my_hooks")
    hooks.none = lambda leaves, tree: []
    monkeypatch.setitem(sys.modules, "my_hooks", hooks)
    async with start(core_version="v2", sample_picker="my_hooks:none") as client:
        session = await client.session()
        await client.said(session, [USER])
        response = await client.http.post(f"{session}/samples", headers={"accept": "application/json"})
        assert (response.json()["samples"], response.json()["empty_reason"]) == ([], "none_picked")


@pytest.mark.parametrize(
    "body", [b"[1]", b"{", b'{"max_seq_len": "8"}', b'{"max_seq_len": 0}', b'{"metadata": [1]}', b"1"]
)
async def test_malformed_bodies_are_refused_with_400(v2: Client, body: bytes) -> None:
    session = await v2.session()
    response = await v2.http.post(f"{session}/samples", content=body)
    assert response.status_code == 400
    assert response.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"other": 1}', b'{"max_seq_len": null}'])
async def test_empty_and_unknown_fields_are_fine(v2: Client, body: bytes) -> None:
    session = await v2.session()
    assert (await v2.http.post(f"{session}/samples", content=body)).status_code == 200


async def test_samples_of_an_unknown_session_are_404(v2: Client) -> None:
    assert (await v2.http.post("/sessions/nope/samples")).status_code == 404


def rows(first: int, count: int, layers: int = 2, k: int = 3) -> str:
    values = np.arange(first * layers * k, (first + count) * layers * k, dtype="<i4")
    return base64.b64encode(values.tobytes()).decode()


@pytest.mark.parametrize("from_checkpoint", [False, True])
async def test_routed_experts_cover_every_token_but_the_last(start, qwen_path, from_checkpoint: bool) -> None:
    from session_server.tito.vocabulary import Vocabulary

    vocabulary = Vocabulary.load(qwen_path, trust_remote_code=False)
    vocabulary.layers = 2
    async with start(
        vocabulary=vocabulary,
        core_version="v1",
        routed_experts=True,
        routed_experts_from_checkpoint=from_checkpoint,
    ) as client:

        def answer(request: dict[str, Any]) -> Say:
            say = Say()
            total = len(request["input_ids"]) + len(vocabulary.encode(say.sampled() + "<|im_end|>"))
            first = request.get("routed_experts_start_len", 0)
            say.meta = {"routed_experts": rows(first, total - 1 - first)}
            return say

        client.engine.otherwise = answer
        session = await client.session()
        first = await client.said(session, [SYSTEM, USER])
        reply = await client.chat(session, [SYSTEM, USER, first, MORE])
        assert "routed_experts" not in reply.json()["choices"][0]["meta_info"]
        assert client.engine.requests[0]["return_routed_experts"] is True
        record = (await client.view(session))["records"][1]
        assert "routed_experts" in record["response"]["choices"][0]["meta_info"]
        meta, tensors = await fetch(client, session)
        got = tensors["rollout_routed_experts.0"]
        assert got.dtype == np.int32
        count = len(tensors["tokens.0"]) - 1
        assert got.tolist() == np.arange(count * 6, dtype=np.int32).reshape(count, 2, 3).tolist()
        assert meta["samples"][0]["nulls"] == ["rollout_indexer_topk"]


@pytest.mark.parametrize("core", ["v1", "v2"])
async def test_the_last_turns_messages_are_in_the_sample_where_they_are_asked_for(start, core: str) -> None:
    async with start(core_version=core, sample_messages=True) as client:
        session = await client.session()
        first = await client.said(session, [SYSTEM, USER])
        last = await client.said(session, [SYSTEM, USER, first, MORE])
        meta, _ = await fetch(client, session)
        [sample] = meta["samples"]
        assert [said["role"] for said in sample["metadata"]["messages"]] == [
            *("system", "user", "assistant", "user", "assistant"),
        ]
        assert sample["metadata"]["messages"][-1] == last
