"""Settings of the engine image: read from the environment, refused with every problem at once."""

from pathlib import Path

import pytest
from serve.settings import BadSettingsError, Settings, load, problems

pytestmark = pytest.mark.usefixtures("clean_environment")


def test_the_defaults_serve_qwen3_with_its_own_parsers(models: Path) -> None:
    settings = Settings(models=models)
    assert (settings.family, settings.tool_call_parser, settings.reasoning_parser) == ("qwen3", "qwen25", "qwen3")
    assert settings.model == models / "qwen3"
    assert problems(settings) == ()


def test_variables_of_the_container_become_settings(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "MODELS": str(models),
        "FAMILY": "qwen3",
        "TOOL_CALL_PARSER": "hermes",
        "REASONING_PARSER": "deepseek-r1",
        "CONTEXT_LENGTH": "4096",
        "MAX_RUNNING_REQUESTS": "3",
        "EXTRA_ARGS": "--watchdog-timeout 60 --api-key 'two words'",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    settings = load()
    assert settings.tool_call_parser == "hermes"
    assert settings.reasoning_parser == "deepseek-r1"
    assert settings.context_length == 4096
    assert settings.max_running_requests == 3
    assert settings.extra_args == ("--watchdog-timeout", "60", "--api-key", "two words")


def test_an_empty_variable_means_the_default(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELS", str(models))
    monkeypatch.setenv("CONTEXT_LENGTH", "")
    assert load().context_length == 8192


def test_all_malformed_values_are_named_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAMILY", "../etc")
    monkeypatch.setenv("CONTEXT_LENGTH", "long")
    monkeypatch.setenv("MAX_RUNNING_REQUESTS", "0")
    monkeypatch.setenv("DTYPE", "int4")
    with pytest.raises(BadSettingsError) as caught:
        load()
    message = str(caught.value)
    for expected in ("FAMILY='../etc'", "CONTEXT_LENGTH='long'", "MAX_RUNNING_REQUESTS='0'", "DTYPE='int4'"):
        assert expected in message
    assert len(caught.value.problems) == 4


def test_unbalanced_quotes_in_extra_arguments_are_a_problem_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXTRA_ARGS", "--api-key 'never closed")
    with pytest.raises(BadSettingsError, match="EXTRA_ARGS"):
        load()


def test_all_misfits_of_well_formed_values_are_named_in_one_message(models: Path) -> None:
    (models / "qwen3" / "tokenizer.json").unlink()
    (models / "qwen3" / "chat_template.jinja").unlink()
    found = problems(
        Settings(models=models, context_length=9000, max_total_tokens=4096, extra_args=("--port=1", "--device", "cuda"))
    )
    text = "\n".join(found)
    assert "EXTRA_ARGS: --device" in text
    assert "EXTRA_ARGS: --port" in text
    assert "lacks chat_template.jinja, tokenizer.json" in text
    assert "CONTEXT_LENGTH=9000: the model was made for at most 8192 tokens" in text
    assert "MAX_TOTAL_TOKENS=4096: smaller than CONTEXT_LENGTH=9000" in text
    assert len(found) == 5


def test_an_unknown_family_is_answered_with_the_ones_that_are_there(models: Path) -> None:
    (found,) = problems(Settings(models=models, family="qwen35"))
    assert "FAMILY=qwen35" in found
    assert found.endswith("this image has qwen3")


def test_an_empty_models_directory_is_said_to_be_empty(tmp_path: Path) -> None:
    (found,) = problems(Settings(models=tmp_path))
    assert found.endswith("no models at all")


@pytest.mark.parametrize("content", ["not json", "[]", "{}", '{"max_position_embeddings": null}'])
def test_a_model_configuration_that_can_not_be_used_is_named(models: Path, content: str) -> None:
    (models / "qwen3" / "config.json").write_text(content, encoding="utf-8")
    (found,) = problems(Settings(models=models))
    assert "config.json can not be used" in found
