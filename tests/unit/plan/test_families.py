"""The families file: the package's own is right, and a wrong one is refused with all that is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.plan.families import BOUND, DEFAULT_FILE, load_families, parse_families
from runner.plan.model import EngineKind, FailureMode, SystemExpectation

TEXT = DEFAULT_FILE.read_text(encoding="utf-8")


def change(family: str, old: str, new: str) -> str:
    """The file with one field of one family changed."""
    head, tail = TEXT.split(f"[family.{family}]\n", 1)
    body, *rest = re.split(r"(?=^\[)", tail, maxsplit=1, flags=re.MULTILINE)
    assert old in body, f"{old!r} is not in {family}"
    return f"{head}[family.{family}]\n{body.replace(old, new, 1)}{''.join(rest)}"


def problems(text: str) -> list[str]:
    return parse_families(text, where="f.toml").problems


def test_the_eight_families_are_there_in_order() -> None:
    assert list(load_families()) == [
        "qwen3",
        "qwen35",
        "qwen36",
        "glm47",
        "nemotron3",
        "deepseekv4",
        "inkling",
        "minimax_m27",
    ]


@pytest.mark.parametrize(
    ("name", "gpus", "tensor", "expert", "spec", "cycles", "samples", "openai", "anthropic", "mode", "roles", "system"),
    [
        ("qwen3", 2, 1, 1, "", 2, 4, 0.25, 1.0, "append_tool", "tusa", "required"),
        ("qwen35", 4, 2, 1, "EAGLE 2-1-3", 2, 4, 0.2, 1.0, "append_tool", "tua", "forbidden"),
        ("qwen36", 4, 2, 1, "EAGLE 2-1-3", 2, 4, 0.2, 1.0, "rollback", "tua", "forbidden"),
        ("glm47", 2, 1, 1, "EAGLE 2-1-3", 3, 4, 0.2, 0.2, "append_tool", "tusa", "required"),
        ("nemotron3", 2, 1, 1, "", 2, 4, 1.0, 1.0, "append_tool", "tusa", "required"),
        ("deepseekv4", 4, 4, 4, "EAGLE 2-1-3", 2, 4, 0.05, 0.05, "rollback", "tua", "forbidden"),
        ("inkling", 4, 4, 1, "", 2, 1, 0.2, 0.2, "append_tool", "tusa", "required"),
        ("minimax_m27", 4, 4, 1, "", 2, 4, 0.1, None, "append_user", "tua", None),
    ],
)
def test_each_family_says_what_the_matrix_says(
    name: str,
    gpus: int,
    tensor: int,
    expert: int,
    spec: str,
    cycles: int,
    samples: int,
    openai: float,
    anthropic: float | None,
    mode: str,
    roles: str,
    system: str | None,
) -> None:
    family = load_families()[name]
    assert (family.gpus, family.tensor_parallel, family.expert_parallel) == (gpus, tensor, expert)
    assert (str(family.speculative) if family.speculative else "") == spec
    assert (family.cycles, family.samples.of(EngineKind.GPU), family.samples.of(EngineKind.CPU)) == (cycles, samples, 2)
    assert (family.soft_threshold.openai, family.soft_threshold.anthropic) == (openai, anthropic)
    assert family.failure_mode is FailureMode(mode)
    assert "".join(role[0] for role in family.append_roles) == roles
    assert family.anthropic_intermediate_system_expectation == (SystemExpectation(system) if system else None)
    assert family.verify_anthropic is (system is not None)
    assert family.content_limit == 0


def test_only_glm47_trims_only_minimax_is_deprecated_only_inkling_has_no_prefill_graph_only_qwen3_is_micro() -> None:
    families = load_families()
    assert {name for name, family in families.items() if family.max_trim_tokens} == {"glm47"}
    assert {name for name, family in families.items() if family.deprecated} == {"minimax_m27"}
    assert {name for name, family in families.items() if not family.prefill_cuda_graph} == {"inkling"}
    assert {name for name, family in families.items() if family.micro_model} == {"qwen3"}


@pytest.mark.parametrize(
    ("text", "family", "said"),
    [
        (change("glm47", '"glm45"', '"qwen3"'), "glm47", "reasoning_parser = 'qwen3'; allowed: 'glm45'"),
        (change("qwen3", '"qwen25"', '"hermes"'), "qwen3", "tool_call_parser = 'hermes'; allowed: 'qwen25'"),
        (change("qwen3", "max_trim_tokens = 0", "max_trim_tokens = 1"), "qwen3", "max_trim_tokens = 1; allowed: 0"),
        (
            change("qwen3", 'tito_model = "qwen3"', 'tito_model = "qwen4"'),
            "qwen3",
            "tito_model = 'qwen4'; allowed: qwen3,",
        ),
        (change("qwen3", "cycles = 2", "cycle = 2"), "qwen3", "unknown field cycle; did you mean cycles?"),
        (change("qwen3", "cycles = 2", ""), "qwen3", "cycles is missing; allowed: a whole number, at least 1"),
        (change("qwen3", "cycles = 2", "cycles = 0"), "qwen3", "cycles = 0; allowed"),
        (
            change("qwen3", "cycles = 2", "cycles = 101"),
            "qwen3",
            "cycles = 101; allowed: a whole number, at least 1 and at most 100",
        ),
        (
            change("qwen3", "gpu = 4 }", "gpu = 1001 }"),
            "qwen3",
            "samples.gpu = 1001; allowed: { cpu = count, gpu = count }, each at least 1 and at most 1000",
        ),
        (change("qwen3", "cycles = 2", "cycles = true"), "qwen3", "cycles = True; allowed"),
        (change("qwen3", "cycles = 2", 'cycles = "2"'), "qwen3", "cycles = '2'; allowed"),
        (change("qwen3", "gpu = 4 }", "gpu = 4, tpu = 1 }"), "qwen3", "unknown field samples.tpu"),
        (change("qwen3", "openai = 0.25", "openai = 1.5"), "qwen3", "soft_threshold.openai = 1.5; allowed"),
        (change("qwen3", "openai = 0.25", "openai = nan"), "qwen3", "soft_threshold.openai = nan; allowed"),
        (change("qwen3", '["tool", "user"', '["user"'), "qwen3", "the role 'tool' is needed"),
        (change("qwen3", '["tool", "user"', '["tool", "tool"'), "qwen3", "names a role twice"),
        (change("qwen3", '["tool", "user"', '["tool", "bob"'), "qwen3", "append_roles = 'bob'; allowed: a list out of"),
        (change("qwen35", '["tool", "user"', '["tool", "system"'), "qwen35", "cannot append 'system'"),
        (change("minimax_m27", '"tool", "user"', '"tool"'), "minimax_m27", "'append_user' needs the role 'user'"),
        (
            change("qwen3", '"append_tool"', '"shrug"'),
            "qwen3",
            "failure_mode = 'shrug'; allowed: rollback, append_tool",
        ),
        (
            change("qwen3", 'anthropic_intermediate_system_expectation = "required"\n', ""),
            "qwen3",
            "anthropic_intermediate_system_expectation is missing",
        ),
        (
            change("qwen3", "verify_anthropic = true\n", ""),
            "qwen3",
            "verify_anthropic is missing; allowed: true or false",
        ),
        (change("qwen3", ", anthropic = 1.0", ""), "qwen3", "soft_threshold.anthropic is missing"),
        (change("qwen35", '"forbidden"', '"required"'), "qwen35", "'required' needs the role 'system'"),
        (change("qwen35", '"forbidden"', '"maybe"'), "qwen35", "= 'maybe'; allowed: required, forbidden"),
        (
            change("minimax_m27", "anthropic_opt_out", "# anthropic_opt_out"),
            "minimax_m27",
            "anthropic_opt_out is missing",
        ),
        (change("minimax_m27", "openai = 0.1", "openai = 0.1, anthropic = 0.1"), "minimax_m27", "allowed: only one"),
        (
            change("qwen3", "verify_anthropic = true", 'verify_anthropic = true\nanthropic_opt_out = "no"'),
            "qwen3",
            "anthropic_opt_out is given, and verify_anthropic is true",
        ),
        (change("qwen35", "tensor_parallel = 2", "tensor_parallel = 3"), "qwen35", "gpus = 4 cannot be shared"),
        (
            change("deepseekv4", "expert_parallel = 4", "expert_parallel = 3"),
            "deepseekv4",
            "expert_parallel = 3; allowed",
        ),
        (change("qwen3", "cpu = 256", "cpu = 9000"), "qwen3", "response_budget.cpu = 9000; allowed: less than"),
    ],
)
def test_a_wrong_field_is_named_with_its_family_and_what_is_allowed(text: str, family: str, said: str) -> None:
    found = problems(text)
    assert [problem for problem in found if problem.startswith(f"f.toml: family {family}: ") and said in problem], found


def test_every_problem_of_the_whole_file_comes_in_one_error(tmp_path: Path) -> None:
    text = change("qwen3", "cycles = 2", "cycles = 0")
    text = (
        text.replace('"glm45"', '"qwen3"')
        .replace("verify_anthropic = false\n", "")
        .replace("schema_version = 1", "schema_version = 9")
    )
    file = tmp_path / "families.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        load_families(file)
    assert len(caught.value.problems) == 4
    assert str(file) in str(caught.value)


def test_a_wrong_family_does_not_hide_that_others_are_right() -> None:
    file = parse_families(change("qwen3", "cycles = 2", "cycles = 0"), where="f.toml")
    assert "qwen3" not in file.families
    assert "glm47" in file.families
    assert file.declared is not None
    assert "qwen3" in file.declared


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[family", "is not TOML"),
        ("", "no family"),
        ("schema_version = 1\nfamily = 3", "no family"),
        ("schema_version = 1\n[family]\nqwen3 = 3", "is not a table"),
        (TEXT + "\n[families.x]\na = 1", "unknown top-level key 'families'"),
        (TEXT.replace("[family.qwen3]", "[family.all]"), "'all' cannot be a name"),
        (TEXT.replace("[family.qwen3]", '[family."a/b"]'), "is not a name"),
    ],
)
def test_a_file_of_another_shape_is_refused(text: str, said: str) -> None:
    assert [problem for problem in problems(text) if said in problem]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff")])
def test_a_file_that_cannot_be_read_is_a_configuration_error(tmp_path: Path, make: Callable[[Path], object]) -> None:
    file = tmp_path / "families.toml"
    make(file)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_families(file)


def test_every_tokenizer_family_can_append_tool_results() -> None:
    assert all("tool" in bound.append_roles for bound in BOUND.values())
