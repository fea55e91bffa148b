"""The settings: everything has a name, a default or a demand, and a description; all problems come at once."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from session_server.settings import PREFIX, Settings, SettingsError, describe, load, variable

REQUIRED = {
    "SESSION_SERVER_ENGINE_URL": "http://engine:30000",
    "SESSION_SERVER_CORE_VERSION": "v2",
    "SESSION_SERVER_TOKENIZER_PATH": "/models/qwen3",
    "SESSION_SERVER_TITO_MODEL": "qwen3",
}
PACKAGE = Path(__file__).parents[3] / "images" / "session-server"


def load_with(monkeypatch: pytest.MonkeyPatch, **values: str) -> Settings:
    for name, value in (REQUIRED | {variable(key): value for key, value in values.items()}).items():
        monkeypatch.setenv(name, value)
    return load()


def test_required_values_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_with(monkeypatch)
    assert (settings.port, settings.matcher, settings.sample_picker) == (8080, "strict", "drop_superseded")
    assert settings.instance_id == socket.gethostname()


def test_values_are_read_by_type(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_with(
        monkeypatch, port="0", forward_credentials="true", chat_template_kwargs='{"a": 1}', engine_api_key="k"
    )
    assert (settings.port, settings.forward_credentials, settings.chat_template_kwargs) == (0, True, {"a": 1})
    assert "k" not in repr(settings.engine_api_key)


def test_every_problem_is_reported_at_once_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSION_SERVER_PROT", "1")
    monkeypatch.setenv("SESSION_SERVER_ENGINE_URL", "not a url")
    monkeypatch.setenv("SESSION_SERVER_CORE_VERSION", "v3")
    monkeypatch.setenv("SESSION_SERVER_MAX_SESSIONS", "0")
    with pytest.raises(SettingsError) as caught:
        load()
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "SESSION_SERVER_PROT",
        "SESSION_SERVER_ENGINE_URL",
        "SESSION_SERVER_CORE_VERSION",
        "SESSION_SERVER_TOKENIZER_PATH",
        "SESSION_SERVER_TITO_MODEL",
        "SESSION_SERVER_MAX_SESSIONS",
    ]
    assert "unknown setting" in lines[0]
    assert "(got 'v3')" in lines[2]
    assert "required, not set" in lines[3]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"chat_template_path": "/x"}, "SESSION_SERVER_CHAT_TEMPLATE_PATH is set but SESSION_SERVER_TITO_MODEL=qwen3"),
        ({"routed_experts_from_checkpoint": "1"}, "needs SESSION_SERVER_ROUTED_EXPERTS=true"),
        ({"chat_template_kwargs": "{"}, "SESSION_SERVER_CHAT_TEMPLATE_KWARGS: not valid JSON"),
        ({"chat_template_kwargs": "[1]"}, "SESSION_SERVER_CHAT_TEMPLATE_KWARGS: Input should be a valid dictionary"),
    ],
)
def test_values_that_contradict_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], error: str
) -> None:
    with pytest.raises(SettingsError, match=error):
        load_with(monkeypatch, **values)


def test_an_unknown_family_is_a_problem_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="SESSION_SERVER_TITO_MODEL: unknown model family 'nope'; known: default"):
        load_with(monkeypatch, tito_model="nope")


def test_every_field_is_described_and_listed_by_help() -> None:
    text = describe()
    for name, info in Settings.model_fields.items():
        assert info.description, name
        assert f"  {variable(name)}  (" in text


def start(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "session_server", *arguments],
        cwd=PACKAGE,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_server_that_cannot_start_ends_with_2_and_says_why() -> None:
    done = start({})
    assert done.returncode == 2
    assert all(name in done.stderr for name in REQUIRED)
    done = start(REQUIRED)
    assert (done.returncode, "tokenizer directory /models/qwen3 does not exist" in done.stderr) == (2, True)


def test_help_lists_the_settings_and_ends_with_0() -> None:
    done = start({}, "--help")
    assert done.returncode == 0
    assert f"{PREFIX}ENGINE_URL  (required)" in done.stdout
