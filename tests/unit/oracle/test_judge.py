"""The whole oracle: silent on clean sessions, and each of its findings shown able to happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.base.terms import Lane
from runner.oracle.finding import Severity
from runner.oracle.measure import Measure
from tests.unit.oracle.conftest import Case, driven

from session_server.tito.codec import Codec  # isort: skip

Snapshot = dict[str, Any]
Alter = Callable[[Snapshot], object]


def record(snapshot: Snapshot, index: int) -> Any:
    return snapshot["records"][index]


def prompt(snapshot: Snapshot, index: int) -> list[int]:
    return record(snapshot, index)["request"]["input_ids"]  # type: ignore[no-any-return]


def choice(snapshot: Snapshot, index: int) -> Any:
    return record(snapshot, index)["response"]["choices"][0]


def meta(snapshot: Snapshot, index: int) -> Any:
    return choice(snapshot, index)["meta_info"]


def test_clean_sessions_have_no_findings(session: Case, streamed: Case) -> None:
    assert session.judged() == []
    assert streamed.judged() == []


def set_in(target: Callable[[Snapshot], Any], key: Any, value: Any) -> Alter:
    def alter(snapshot: Snapshot) -> None:
        target(snapshot)[key] = value

    return alter


def swap_records(snapshot: Snapshot) -> None:
    records = snapshot["records"]
    records[2], records[3] = records[3], records[2]


def cut(snapshot: Snapshot, index: int) -> None:
    """The last token is missing, and the budget was all that is left."""
    entries = meta(snapshot, index)["output_token_logprobs"]
    entries.pop()
    record(snapshot, index)["request"]["max_tokens"] = len(entries)


CASES: list[tuple[str, Alter, str]] = [
    ("a prompt id changed", lambda s: prompt(s, 3).__setitem__(40, 7), "prefix"),
    ("a prompt id dropped", lambda s: prompt(s, 3).pop(40), "prefix"),
    ("a prompt id inserted", lambda s: prompt(s, 3).insert(40, 7), "prefix"),
    ("a prompt cut short", lambda s: prompt(s, 3).__delitem__(slice(100, None)), "prefix"),
    ("a sampled id changed", lambda s: meta(s, 3)["output_token_logprobs"][5].__setitem__(1, 7), "prefix"),
    ("another trim", set_in(lambda s: s["metadata"], "max_trim_tokens", 1), "prefix:max_trim_tokens"),
    ("an entry lost", lambda s: meta(s, 2)["output_token_logprobs"].pop(), "counts:completion_tokens"),
    (
        "an entry doubled",
        lambda s: meta(s, 2)["output_token_logprobs"].append([-1.0, 5, None]),
        "counts:completion_tokens",
    ),
    ("a log-prob lost", lambda s: meta(s, 2)["output_token_logprobs"][0].__setitem__(0, None), "counts:logprobs"),
    ("meta counts more", set_in(lambda s: meta(s, 2), "completion_tokens", 99), "counts:completion_tokens"),
    ("meta counts another prompt", set_in(lambda s: meta(s, 2), "prompt_tokens", 1), "counts:prompt_tokens"),
    (
        "usage counts more",
        set_in(lambda s: record(s, 2)["response"]["usage"], "completion_tokens", 99),
        "counts:completion_tokens",
    ),
    (
        "usage counts another prompt",
        set_in(lambda s: record(s, 2)["response"]["usage"], "prompt_tokens", 99),
        "counts:prompt_tokens",
    ),
    ("no usage", lambda s: record(s, 2)["response"].pop("usage"), "counts:usage"),
    ("nothing sampled", set_in(lambda s: meta(s, 2), "output_token_logprobs", []), "counts:no_output"),
    ("a cut reply that is told as finished", lambda s: cut(s, 4), "counts:budget"),
    ("accumulated cut", lambda s: s["metadata"]["accumulated_token_ids"].pop(), "counts:accumulated"),
    ("accumulated longer", lambda s: s["metadata"]["accumulated_token_ids"].append(3), "counts:accumulated"),
    ("accumulated empty", set_in(lambda s: s["metadata"], "accumulated_token_ids", []), "counts:accumulated"),
    ("client got other ids", lambda s: meta(s, -1)["output_token_logprobs"][3].__setitem__(1, 7), "counts:client_ids"),
    ("client was told other counts", lambda s: prompt(s, -1).append(7), "counts:client_usage"),
    ("content that was not sampled", set_in(lambda s: choice(s, 1)["message"], "content", "x"), "text:content"),
    (
        "reasoning that was not sampled",
        set_in(lambda s: choice(s, 1)["message"], "reasoning_content", "x"),
        "text:reasoning",
    ),
    (
        "a call that was not sampled",
        lambda s: choice(s, 0)["message"]["tool_calls"][0]["function"].update(name="get_time"),
        "text:call_name",
    ),
    (
        "an argument that was not sampled",
        lambda s: choice(s, 0)["message"]["tool_calls"][0]["function"].update(arguments='{"location": "Rome"}'),
        "text:call_argument",
    ),
    ("no comparison by the server", lambda s: s["metadata"].pop("tito_session_mismatch"), "server:absent"),
    ("a null comparison", set_in(lambda s: s["metadata"], "tito_session_mismatch", None), "server:absent"),
    ("a record lost", lambda s: s["records"].pop(4), "history:records"),
    ("the last record lost", lambda s: s["records"].pop(), "history:records"),
    ("no records at all", lambda s: s["records"].clear(), "history:records"),
    ("a record doubled", lambda s: s["records"].insert(4, s["records"][4]), "history:records"),
    ("a rolled-back turn kept", set_in(lambda s: record(s, 4)["response"], "id", "other"), "history:records"),
    ("records in another order", swap_records, "history:records"),
    ("another session", set_in(lambda s: s, "session_id", "other"), "history:session"),
    ("another path", set_in(lambda s: record(s, 0), "path", "/v1/completions"), "history:record"),
    ("another status", set_in(lambda s: record(s, 0), "status_code", 201), "history:record"),
    ("a role changed", set_in(lambda s: record(s, 3)["request"]["messages"][3], "role", "user"), "history:roles"),
    ("a message lost", lambda s: record(s, 3)["request"]["messages"].pop(0), "history:roles"),
    (
        "a user text changed",
        set_in(lambda s: record(s, 3)["request"]["messages"][1], "content", "x"),
        "history:message",
    ),
    (
        "a call id changed",
        set_in(lambda s: record(s, 3)["request"]["messages"][3], "tool_call_id", "x"),
        "history:message",
    ),
    (
        "reasoning dropped from replay",
        set_in(lambda s: record(s, 3)["request"]["messages"][2], "reasoning_content", None),
        "history:replay",
    ),
    (
        "tool calls dropped from replay",
        lambda s: record(s, 3)["request"]["messages"][2].pop("tool_calls"),
        "history:replay",
    ),
    ("tool calls lost from the stored reply", lambda s: choice(s, 2)["message"].pop("tool_calls"), "history:reply"),
    ("a stored reply changed", set_in(lambda s: choice(s, 1)["message"], "content", "x"), "history:reply"),
    ("the last stored reply changed", set_in(lambda s: choice(s, -1)["message"], "content", "x"), "history:reply"),
    ("another finish reason", set_in(lambda s: choice(s, 1), "finish_reason", "length"), "history:finish_reason"),
]


@pytest.mark.parametrize(("alter", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_finding_can_happen(session: Case, alter: Alter, expected: str) -> None:
    hard = [finding for finding in session.judged(alter) if finding.severity is Severity.HARD]
    assert expected in {f"{finding.check}:{finding.type}" for finding in hard} | {finding.check for finding in hard}


@pytest.mark.parametrize("kind", ["special_token_count", "special_token_type", "non_assistant_text", "brand_new"])
def test_mismatches_that_the_server_reports_are_hard(session: Case, kind: str) -> None:
    (finding,) = session.judged(lambda s: s["metadata"]["tito_session_mismatch"].append(mismatch(kind)))
    assert (finding.check, finding.type, finding.severity) == ("server", kind, Severity.HARD)
    assert ("does not know" in finding.message) == (kind == "brand_new")


@pytest.mark.parametrize("lane", Lane)
def test_a_comparison_that_raised_in_the_server_is_no_pass(
    lane: Lane, measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the comparator broke")

    monkeypatch.setattr(Codec, "mismatches", broken)
    found = driven(lane, measure, stream=True, faults=[]).judged()
    assert {(f.check, f.type) for f in found if f.severity is Severity.HARD} == {("server", "absent")}


def test_only_a_mismatch_of_assistant_text_is_soft(session: Case) -> None:
    (finding,) = session.judged(lambda s: s["metadata"]["tito_session_mismatch"].append(mismatch("assistant_text")))
    assert finding.severity is Severity.SOFT
    bare = {"type": "assistant_text", "segment_index": 4, "expected_text": None, "actual_text": None, "detail": None}
    (nulls,) = session.judged(lambda s: s["metadata"]["tito_session_mismatch"].append(bare))
    assert nulls.severity is Severity.SOFT, "texts may be null"
    assert "segment 4" in finding.message


def mismatch(kind: str) -> dict[str, Any]:
    return {"type": kind, "segment_index": 4, "expected_text": "a", "actual_text": "b", "detail": ""}


def test_a_reply_that_the_client_saw_otherwise_is_found(session: Case) -> None:
    def alter(transcript: dict[str, Any]) -> None:
        transcript["turns"][-1]["reply"]["content"] = "something else"

    assert session.with_transcript(alter).types() == {"history:reply"}


def test_a_difference_tells_token_ids_text_turn_and_role(session: Case) -> None:
    """Record 3 is turn 4; its prompt holds the first tool result (turn 2) from the first reply on."""
    start = len(prompt(session.snapshot, 0)) + len(meta(session.snapshot, 0)["output_token_logprobs"])
    index = start + 8
    before = prompt(session.snapshot, 1)[index]
    other = before + 1

    def alter(snapshot: Snapshot) -> None:
        prompt(snapshot, 3)[index] = other

    finding = next(f for f in session.judged(alter) if f.check == "prefix" and f.turn == 4)
    assert finding.role == "tool"
    assert finding.diff is not None
    assert (finding.diff.token_index, finding.diff.expected_id, finding.diff.actual_id) == (index, before, other)
    assert len(finding.diff.expected_ids) == len(finding.diff.actual_ids) == 17
    assert finding.diff.expected_ids[8] == before
    assert finding.diff.expected_text == session.tokens.decode(prompt(session.snapshot, 1)[index - 8 : index + 9])
    assert "turn 4 does not begin with" in finding.message
    assert "came with the tool text of turn 2" in finding.message


@pytest.mark.parametrize(("where", "role"), [("system", "system"), ("user", "user"), ("sampled", "assistant")])
def test_a_difference_is_ascribed_to_the_role_it_lies_in(session: Case, where: str, role: str) -> None:
    first = prompt(session.snapshot, 0)
    index = {"system": 5, "user": len(first) - 7, "sampled": len(first) + 2}[where]

    def alter(snapshot: Snapshot) -> None:
        prompt(snapshot, 1)[index] += 1

    finding = next(f for f in session.judged(alter) if f.check == "prefix" and f.turn == 2)
    assert finding.role == role


def mutate(ids: list[int], kind: str, at: int, value: int) -> list[int]:
    at %= len(ids)
    match kind:
        case "swap":
            other = (at + 1) % len(ids)
            changed = list(ids)
            changed[at], changed[other] = changed[other], changed[at]
            return changed
        case "drop":
            return [*ids[:at], *ids[at + 1 :]]
        case "insert":
            return [*ids[:at], value, *ids[at:]]
        case "replace":
            return [*ids[:at], value, *ids[at + 1 :]]
        case _:
            return ids[:at]


KINDS = st.sampled_from(["swap", "drop", "insert", "replace", "trim"])


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(which=st.integers(0, 10), kind=KINDS, at=st.integers(0, 10_000), value=st.integers(0, 2000))
def test_any_mutation_of_any_prompt_is_found_and_nothing_else_is(
    session: Case, which: int, kind: str, at: int, value: int
) -> None:
    """Flags exactly the mutated conversations: those whose ids really changed."""
    ids = prompt(session.snapshot, which)
    mutated = mutate(ids, kind, at, value)

    def alter(snapshot: Snapshot) -> None:
        record(snapshot, which)["request"]["input_ids"] = mutated

    findings = session.judged(alter)
    assert bool(findings) == (mutated != ids)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(which=st.integers(0, 10), kind=KINDS, at=st.integers(0, 10_000), value=st.integers(0, 2000))
def test_any_mutation_of_any_sampled_ids_is_found_and_nothing_else_is(
    streamed: Case, which: int, kind: str, at: int, value: int
) -> None:
    """Also where the wire carried no ids to the client."""
    entries = meta(streamed.snapshot, which)["output_token_logprobs"]
    ids = [entry[1] for entry in entries]
    mutated = mutate(ids, kind, at, value)

    def alter(snapshot: Snapshot) -> None:
        target = meta(snapshot, which)
        target["output_token_logprobs"] = [[-0.5, token_id, None] for token_id in mutated]
        target["completion_tokens"] = len(mutated)
        record(snapshot, which)["response"]["usage"]["completion_tokens"] = len(mutated)

    assert bool(streamed.judged(alter)) == (mutated != ids)


def test_tokenizing_text_again_instead_of_keeping_ids_is_found(session: Case) -> None:
    """The sampled split is not the canonical one, so a prompt that was tokenized again differs in ids, not in text."""
    ids = prompt(session.snapshot, 5)
    again = session.tokens.encode(session.tokens.decode(ids))
    assert session.tokens.decode(again) == session.tokens.decode(ids)
    assert again != ids
    findings = session.judged(set_in(lambda s: record(s, 5)["request"], "input_ids", again))
    assert "re_tokenized" in {finding.type for finding in findings if finding.check == "prefix"}


def test_a_reply_that_ends_itself_may_use_its_whole_budget(session: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        entries = meta(snapshot, 4)["output_token_logprobs"]
        record(snapshot, 4)["request"]["max_tokens"] = len(entries)

    assert session.judged(alter) == []
