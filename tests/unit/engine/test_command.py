"""Settings -> command line and environment of the engine process."""

from pathlib import Path

import pytest
from serve.command import ENVIRONMENT, argv, environment, line
from serve.settings import OWN_FLAGS, Settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def value(words: tuple[str, ...], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_the_model_its_template_and_its_name_come_from_the_family() -> None:
    words = argv(Settings(family="glm47", models=Path("/models")))
    assert value(words, "--model-path") == "/models/glm47"
    assert value(words, "--chat-template") == "/models/glm47/chat_template.jinja"
    assert value(words, "--served-model-name") == "glm47"


def test_parsers_limits_and_seed_are_passed_on() -> None:
    words = argv(
        Settings(
            tool_call_parser="a",
            reasoning_parser="b",
            context_length=512,
            max_running_requests=2,
            max_total_tokens=1024,
            random_seed=7,
            port=31000,
        )
    )
    expected = {
        "--tool-call-parser": "a",
        "--reasoning-parser": "b",
        "--context-length": "512",
        "--max-running-requests": "2",
        "--max-total-tokens": "1024",
        "--random-seed": "7",
        "--port": "31000",
    }
    assert {flag: value(words, flag) for flag in expected} == expected


def test_the_engine_serves_on_cpu_in_float32_and_sleeps_when_idle() -> None:
    words = argv(Settings())
    assert value(words, "--device") == "cpu"
    assert value(words, "--dtype") == "float32"
    assert value(words, "--attention-backend") == "torch_native"
    assert "--sleep-on-idle" in words


def test_extra_arguments_come_last_and_as_they_were_split() -> None:
    assert argv(Settings(extra_args=("--watchdog-timeout", "60")))[-2:] == ("--watchdog-timeout", "60")


def test_no_flag_is_given_twice() -> None:
    flags = [word for word in argv(Settings()) if word.startswith("--")]
    assert len(flags) == len(set(flags))


def test_flags_that_follow_from_settings_can_not_be_extra_arguments() -> None:
    words = argv(Settings())
    assert {flag for flag in OWN_FLAGS if flag in words} == set(OWN_FLAGS) - {"--model"}


def test_the_engine_never_goes_to_the_network_and_sends_no_statistics() -> None:
    assert ENVIRONMENT["HF_HUB_OFFLINE"] == ENVIRONMENT["TRANSFORMERS_OFFLINE"] == ENVIRONMENT["DO_NOT_TRACK"] == "1"
    assert ENVIRONMENT["SGLANG_USE_CPU_ENGINE"] == "1"


def test_the_start_method_reaches_the_engine_process() -> None:
    assert environment(Settings())["START_METHOD"] == "fork"
    assert environment(Settings(start_method="spawn"))["START_METHOD"] == "spawn"


def test_one_line_says_what_is_started() -> None:
    text = line(Settings(), "0.5.23")
    assert "\n" not in text
    for part in ("SGLang 0.5.23", "/models/qwen3", ":30000", "8192", "qwen25"):
        assert part in text
