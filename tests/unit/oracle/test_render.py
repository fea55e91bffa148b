"""Canonical re-render: segments, the four kinds of difference, and the classes of the soft one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.base.errors import InfrastructureError
from runner.oracle.finding import Severity
from runner.oracle.forms import FORMS, no_form
from runner.oracle.measure import Measure
from runner.oracle.render import Canon
from runner.oracle.segments import compare, split, trimmed
from runner.oracle.soft import SoftClass, classify
from runner.oracle.tokens import Tokens
from runner.plan.families import BOUND
from tests.unit.agents.bench import MODEL
from tests.unit.oracle.conftest import Case

Snapshot = dict[str, Any]
OPENER = "<|im_start|>assistant"


def kinds(case: Case, alter: Callable[[Snapshot], object]) -> set[tuple[str, str]]:
    return {(f.type, f.severity.value) for f in case.judged(alter) if f.check == "render"}


def tail(snapshot: Snapshot) -> tuple[list[int], list[list[Any]]]:
    last = snapshot["records"][-1]
    return last["request"]["input_ids"], last["response"]["choices"][0]["meta_info"]["output_token_logprobs"]


def replaced(case: Case, old: str, new: str) -> Callable[[Snapshot], None]:
    """Write other text into the last prompt, in the canonical split."""

    def alter(snapshot: Snapshot) -> None:
        prompt, _ = tail(snapshot)
        text = case.tokens.decode(prompt)
        assert old in text
        prompt[:] = case.tokens.encode(text.replace(old, new, 1))

    return alter


def test_another_split_of_the_same_text_is_no_difference(session: Case) -> None:
    assert kinds(session, replaced(session, "Beijing", "Beijing")) == set()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("weather assistant", "weather Assistant", ("non_assistant_text", "hard")),
        ("</tool_response><|im_end|>", "</tool_response>\n<|im_end|>", ("non_assistant_text", "hard")),
        ("<|im_end|>\n<|im_start|>user", "<|im_end|><|im_start|>user", ("special_token_count", "hard")),
        (
            "<|im_end|>\n<|im_start|>user\n<tool_response>",
            "<|im_end|><|im_start|>user\n<tool_response>",
            ("special_token_count", "hard"),
        ),
        ("<|im_end|>\n<|im_start|>user", "<|im_end|>\n\n<|im_start|>user", ("non_assistant_text", "hard")),
        (
            "<|im_end|>\n<|im_start|>user\n<tool_response>",
            "<|im_end|><|im_end|>\n<|im_start|>user\n<tool_response>",
            ("special_token_count", "hard"),
        ),
        (
            "</tool_response><|im_end|>",
            "</tool_response><|im_end|>\n<|im_start|>user\n<tool_response>\nx\n</tool_response><|im_end|>",
            ("special_token_count", "hard"),
        ),
        ("<|im_start|>system\nReminder", "<|endoftext|>system\nReminder", ("special_token_type", "hard")),
        ("It is sunny", "It is rainy", ("content", "soft")),
        ("It is sunny", "It  is sunny", ("whitespace_only", "soft")),
        ("</think>\n\nIt is sunny", "</think>It is sunny", ("reasoning_boundary", "soft")),
        (
            '{"name": "get_weather", "arguments"',
            '{"name":"get_weather", "arguments"',
            ("tool_call_serialization", "soft"),
        ),
        ('"location": "Beijing"}}\n</tool_call>', '"location": "Berlin"}}\n</tool_call>', ("content", "soft")),
    ],
)
def test_each_kind_of_difference_is_graded(session: Case, old: str, new: str, expected: tuple[str, str]) -> None:
    assert kinds(session, replaced(session, old, new)) == {expected}


def test_a_difference_tells_where_it_is(session: Case) -> None:
    (finding,) = [f for f in session.judged(replaced(session, "sunny in", "rainy in")) if f.check == "render"]
    assert finding.role == "assistant"
    assert finding.turn == 2
    assert finding.diff is not None
    assert "sunny" in finding.diff.expected_text
    assert "rainy" in finding.diff.actual_text


def test_a_changed_message_is_a_difference_to_the_kept_tokens(session: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        snapshot["records"][-1]["request"]["messages"][1]["content"] = "What's the weather in Rome?"

    assert ("non_assistant_text", "hard") in kinds(session, alter)


def test_a_forced_call_differs_in_its_serialization_and_in_nothing_else(messages: Case) -> None:
    rendered = [finding for finding in messages.judged() if finding.check == "render"]
    assert [(f.type, f.severity, f.role) for f in rendered] == [
        ("tool_call_serialization", Severity.SOFT, "assistant")
    ] * 3
    assert [finding.turn for finding in rendered] == [1, 3, 5]


REORDERED = (
    '"name": "get_weather", "description": "Get the current weather in a city."',
    '"description": "Get the current weather in a city.", "name": "get_weather"',
)


@pytest.mark.parametrize(
    ("changes", "form"),
    [
        ([('"strict": false}}', '"strict": false}, "defer_loading": null}')], "'sglang'"),
        ([('"strict": false}}', '"strict": false}, "defer_loading": null}'), REORDERED], "'sglang with all defaults'"),
    ],
)
def test_how_a_server_prints_tools_is_found_and_told(session: Case, changes: list[tuple[str, str]], form: str) -> None:
    def alter(snapshot: Snapshot) -> None:
        for record in snapshot["records"]:
            prompt = record["request"]["input_ids"]
            text = session.tokens.decode(prompt)
            for old, new in changes:
                assert old in text
                text = text.replace(old, new)
            prompt[:] = session.tokens.encode(text)

    findings = [finding for finding in session.judged(alter) if finding.check == "render"]
    assert [(finding.type, finding.severity) for finding in findings] == [("tool_form", Severity.NOTE)]
    assert form in findings[0].message


def test_a_first_prompt_of_no_known_form_is_told_with_its_difference(session: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        prompt = snapshot["records"][0]["request"]["input_ids"]
        prompt[:] = session.tokens.encode(session.tokens.decode(prompt).replace("# Tools", "# Tool"))

    (note,) = [finding for finding in session.judged(alter) if finding.check == "render"]
    assert (note.type, note.severity) == ("first_prompt", Severity.NOTE)
    assert note.diff is not None
    assert "Tools" in note.diff.expected_text


def test_messages_that_the_template_refuses_are_a_hard_finding(session: Case) -> None:
    def alter(snapshot: Snapshot) -> None:
        snapshot["records"][-1]["request"]["messages"][0] = {"role": "system", "content": {"not": "text"}}

    assert kinds(session, alter) == {("unrenderable", "hard")}


def test_a_family_without_a_canonical_form_is_said_not_to_be_rendered_and_why(session: Case) -> None:
    bare = Case(session.snapshot, session.transcript, session.cell, Measure(session.tokens, None, "nobody wrote it"))
    (note,) = bare.judged()
    assert (note.check, note.type, note.severity) == ("render", "not_applicable", Severity.NOTE)
    assert note.message.startswith("the canonical re-render is not applicable: nobody wrote it. ")


def test_every_family_that_can_be_driven_has_a_form_or_a_reason() -> None:
    assert {name for name in BOUND if no_form(name)} == {"deepseekv32"}
    assert no_form("deepseekv32").startswith("DeepSeek V3.2 has no chat template")
    assert "'klingon'" in no_form("klingon")


def test_a_known_form_without_its_template_is_infrastructure(tokens: Tokens, tmp_path: Path) -> None:
    assert Canon.load(tmp_path, "deepseekv32", tokens) is None
    with pytest.raises(InfrastructureError, match="no chat template"):
        Canon.load(tmp_path, "glm47", tokens)
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    canon = Canon.load(tmp_path, "glm47", tokens)
    assert canon is not None


def test_a_template_within_the_tokenizer_configuration_is_found(tokens: Tokens, tmp_path: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"eos_token": "<|endoftext|>"}')
    with pytest.raises(InfrastructureError, match="no chat template"):
        Canon.load(tmp_path, "glm47", tokens)
    config.write_text('{"eos_token": "<|endoftext|>", "chat_template": "{{ messages[0].content }}"}')
    assert Canon.load(tmp_path, "glm47", tokens) is not None


def test_every_fixed_template_is_there() -> None:
    tokens = Tokens.load(MODEL)
    for name, form in FORMS.items():
        if form.template is not None:
            assert Canon.load(Path("/nowhere"), name, tokens) is not None


@given(st.lists(st.integers(0, 9), max_size=40), st.sets(st.integers(0, 9), max_size=4))
def test_segments_put_together_are_the_sequence(ids: list[int], boundaries: set[int]) -> None:
    segments = split(ids, boundaries)
    assert [token_id for segment in segments for token_id in segment.ids] == ids
    assert all(ids[segment.start : segment.start + len(segment.ids)] == segment.ids for segment in segments)
    assert all(segment.special == (segment.ids[0] in boundaries) for segment in segments)
    assert all(len(segment.ids) == 1 for segment in segments if segment.special)


@given(st.lists(st.integers(0, 9), max_size=20), st.sets(st.integers(0, 9), max_size=4))
def test_trimming_cuts_only_the_end(ids: list[int], trailing: set[int]) -> None:
    kept = trimmed(ids, trailing)
    assert ids[: len(kept)] == kept
    assert not kept or kept[-1] not in trailing
    assert all(token_id in trailing for token_id in ids[len(kept) :])


def test_only_a_segment_that_both_sides_open_as_an_assistants_is_one(tokens: Tokens) -> None:
    def kind(expected: str, actual: str) -> list[str]:
        encoded = tokens.encode(expected), tokens.encode(actual)
        return [diff.type for diff in compare(*encoded, tokens.special_ids, OPENER, tokens)]

    assert kind("<|im_start|>assistant\nHi", "<|im_start|>assistant\nHo") == ["assistant_text"]
    assert kind("<|im_start|>assistant\nHi", "<|im_start|>user\nHi") == ["non_assistant_text"]
    assert kind("<|im_start|>user\nassistant", "<|im_start|>user\nAssistant") == ["non_assistant_text"]
    assert kind("assistant\nHi", "assistant\nHo") == ["non_assistant_text"]
    assert kind("<|im_start|>a", "<|im_end|>b") == ["special_token_type", "non_assistant_text"]
    assert kind("<|im_start|>a<|im_end|>", "<|im_start|>a") == ["special_token_count"]
    assert kind("<|im_start|>a", "<|im_start|>a") == []


CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1, "y": "a b"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("expected", "actual", "label"),
    [
        ("Hello world", "Hello  world", SoftClass.WHITESPACE),
        ("Hello world", "Hello\nworld", SoftClass.WHITESPACE),
        ("Hello world", "Helloworld", SoftClass.CONTENT),
        ("Hello world", "Hello word", SoftClass.CONTENT),
        ("<think>\na\n</think>\n\nb", "<think>a</think>b", SoftClass.REASONING),
        ("<think>\n\n</think>\n\nb", "b", SoftClass.REASONING),
        ("<think>\na\n</think>\n\nb", "b", SoftClass.CONTENT),
        ("<think>\na\n</think>\n\nb", "<think>\na b\n</think>", SoftClass.CONTENT),
        ("<think>\na\n</think>\n\nb  c", "<think>a</think>b c", SoftClass.WHITESPACE),
        (CALL, CALL.replace('": ', '":'), SoftClass.TOOL_CALL),
        (CALL, '<tool_call>{"arguments":{"y":"a b","x":1},"name":"f"}</tool_call>', SoftClass.TOOL_CALL),
        (CALL, CALL.replace('"x": 1', '"x": 2'), SoftClass.CONTENT),
        (CALL, CALL.replace('"x": 1', '"x": true'), SoftClass.CONTENT),
        (CALL, CALL.replace("a b", "a  b"), SoftClass.CONTENT),
        (CALL, CALL.replace("a b", "ab"), SoftClass.CONTENT),
        (CALL, "", SoftClass.CONTENT),
        (f"{CALL}\n{CALL}", CALL, SoftClass.CONTENT),
        (f"a{CALL}", f"{CALL}a", SoftClass.CONTENT),
        (f"<think>\na\n</think>\n\n{CALL}", f"<think>\na\n</think>{CALL.replace(': ', ':')}", SoftClass.TOOL_CALL),
        (f"<think>\na\n</think>\n\n{CALL}", f"<think>\nb\n</think>{CALL.replace(': ', ':')}", SoftClass.CONTENT),
        (
            "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
            "<tool_call><function=f><parameter=x>1</parameter></function></tool_call>",
            SoftClass.TOOL_CALL,
        ),
        (
            "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\n<parameter=x>\n2\n</parameter>\n</function>\n</tool_call>",
            SoftClass.CONTENT,
        ),
    ],
)
def test_soft_differences_are_told_apart(expected: str, actual: str, label: SoftClass) -> None:
    assert classify(expected, actual) is label
    assert classify(actual, expected) is label, "the class does not depend on the side"


WORDS = st.lists(st.sampled_from(["It", "is", "sunny", "ünïcode", "22"]), min_size=1, max_size=6)


@given(WORDS, WORDS)
def test_a_changed_word_is_always_content(left: list[str], right: list[str]) -> None:
    if left != right:
        assert classify(" ".join(left), " ".join(right)) is SoftClass.CONTENT


@given(WORDS, st.lists(st.sampled_from([" ", "\n", "\t  "]), min_size=6, max_size=6))
def test_other_spacing_alone_is_never_content(words: list[str], spaces: list[str]) -> None:
    spaced = "".join(word + space for word, space in zip(words, spaces, strict=False))
    if spaced != " ".join(words):
        assert classify(" ".join(words), spaced) is not SoftClass.CONTENT
