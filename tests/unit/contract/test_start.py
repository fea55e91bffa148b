"""The start script of the published server's image: what is wrong is named before anything starts."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

IMAGE = Path(__file__).resolve().parents[3] / "images" / "session-server-miles"
if str(IMAGE) not in sys.path:
    sys.path.insert(0, str(IMAGE))

from start import __main__ as program  # noqa: E402
from start import contract, serving  # noqa: E402
from start.environment import CoreVersion, Environment, read_environment  # noqa: E402

from runner.base.errors import ConfigurationError  # noqa: E402
from runner.contract.arguments import SessionServerArgs, session_server_args  # noqa: E402

GIVEN = {
    "SESSION_SERVER_ENGINE_URL": "http://engine:30000",
    "SESSION_SERVER_TOKENIZER_PATH": "/models/qwen3",
    "SESSION_SERVER_TITO_MODEL": "qwen3",
    "SESSION_SERVER_CORE_VERSION": "v1",
    "SESSION_SERVER_INSTANCE_ID": "run-session-v1",
    "SESSION_SERVER_LOG_LEVEL": "info",
}
"""What compose.yaml sets."""

FIELDS = list(SessionServerArgs.__dataclass_fields__)


def test_what_compose_sets_makes_args_with_every_field() -> None:
    environment = read_environment(GIVEN)
    args = session_server_args(environment.values(["tool", "user"], {"clear_thinking": False}))
    assert asdict(args) == {
        "hf_checkpoint": "/models/qwen3",
        "tito_model": "qwen3",
        "session_server_ip": "0.0.0.0",
        "session_server_port": 8080,
        "session_server_instance_id": "run-session-v1",
        "tito_allowed_append_roles": ["tool", "user"],
        "miles_router_timeout": 600.0,
        "chat_template_path": None,
        "apply_chat_template_kwargs": {"clear_thinking": False},
        "use_rollout_routing_replay": False,
    }


def test_all_problems_of_the_environment_are_told_at_once() -> None:
    given = {name: value for name, value in GIVEN.items() if not name.endswith(("URL", "MODEL"))}
    with pytest.raises(ConfigurationError) as raised:
        read_environment(given | {"SESSION_SERVER_CORE_VERSION": "v3", "SESSION_SERVER_MATCHER": "strict"})
    assert raised.value.problems == [
        "SESSION_SERVER_CORE_VERSION='v3': allowed: v1 or v2",
        "SESSION_SERVER_MATCHER: the published server has no such setting",
        "SESSION_SERVER_ENGINE_URL: required, not set: the engine's base URL",
        "SESSION_SERVER_TITO_MODEL: required, not set: a family, e.g. qwen3",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "0"),
        ("PORT", "x"),
        ("ENGINE_TIMEOUT_SECONDS", "nan"),
        ("APPEND_ROLES", "tool,boss"),
        ("LOG_LEVEL", "x"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"SESSION_SERVER_{name}='{value}': allowed: "):
        read_environment(GIVEN | {f"SESSION_SERVER_{name}": value})


def server(tmp_path: Path, *fields: str) -> Path:
    """The source of a server that reads these fields."""
    text = "def start(args):\n" + "".join(f"    args.{field}\n" for field in fields)
    (tmp_path / "server.py").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FastAPI]:
    """The apps that were served, instead of serving them; the environment is the one of compose.yaml."""
    import uvicorn

    apps: list[FastAPI] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **_: apps.append(app))
    monkeypatch.setattr(program, "version", lambda _: "0.0.2")
    monkeypatch.setattr(sys, "argv", ["start"])
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    return apps


def test_a_field_that_the_installed_server_reads_and_the_constructor_lacks_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], started: list[FastAPI]
) -> None:
    monkeypatch.setattr(contract, "source", lambda: server(tmp_path, *FIELDS, "sglang_speculative_algorithm"))
    assert program.main() == 2
    said = capsys.readouterr().err
    assert "missing: sglang_speculative_algorithm is not in the constructor (required, read at server.py:12)" in said
    assert started == []


def test_a_server_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contract, "find_spec", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["start", "check"])
    assert program.main() == 2
    assert "miles.rollout.session is not installed" in capsys.readouterr().err


async def ask(app: FastAPI, method: str, path: str) -> httpx.Response:
    """One request to the app."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server") as http:
        return await http.request(method, path)


@pytest.mark.anyio
async def test_as_v2_it_is_up_and_refuses_all_work_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[FastAPI]
) -> None:
    monkeypatch.setattr(contract, "source", lambda: server(tmp_path, *FIELDS))
    monkeypatch.setenv("SESSION_SERVER_CORE_VERSION", "v2")
    assert program.main() == 0
    (app,) = started
    assert (await ask(app, "GET", "/health")).status_code == 200
    for method, path in (("POST", "/sessions"), ("GET", "/ready"), ("POST", "/sessions/x/v1/messages")):
        refused = await ask(app, method, path)
        assert (refused.status_code, "v1-openai only" in refused.json()["error"]) == (501, True)


class _Family:
    SUPPORTED_TEMPLATES = (
        SimpleNamespace(allowed_roles=frozenset({"tool"})),
        SimpleNamespace(allowed_roles=frozenset({"tool", "user"})),
    )


class _Families:
    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def get_tokenizer_class(_: object) -> type[_Family]:
        return _Family


@pytest.mark.anyio
async def test_as_v1_it_serves_the_published_app_with_the_constructors_args_and_ready_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[FastAPI]
) -> None:
    made: list[tuple[SessionServerArgs, str]] = []

    class SessionServer:
        def __init__(self, args: SessionServerArgs, backend_url: str) -> None:
            made.append((args, backend_url))
            self.app = FastAPI()

    templates = ModuleType("miles.utils.chat_template_utils")
    templates.__dict__.update(
        TITOTokenizerType=_Families, resolve_fixed_chat_template=lambda *_: ("/t.jinja", {"clear_thinking": False})
    )
    published = ModuleType("miles.rollout.session.session_server")
    published.__dict__["SessionServer"] = SessionServer
    for name in ("miles", "miles.utils", "miles.rollout", "miles.rollout.session"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, templates.__name__, templates)
    monkeypatch.setitem(sys.modules, published.__name__, published)
    monkeypatch.setattr(contract, "source", lambda: server(tmp_path, *FIELDS))
    assert program.main() == 0
    ((args, url),) = made
    assert isinstance(args, SessionServerArgs)
    assert (args.tito_allowed_append_roles, args.apply_chat_template_kwargs) == (
        ["tool", "user"],
        {"clear_thinking": False},
    )
    assert url == "http://engine:30000"
    (app,) = started
    assert [one for one in app.router.routes if getattr(one, "path", "") == "/ready"]


@pytest.mark.anyio
@pytest.mark.parametrize(("engine", "expected"), [(200, 200), (500, 503), (None, 503)])
async def test_ready_tells_whether_the_engine_generated_a_token(engine: int | None, expected: int) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if engine is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(engine, json={"text": "x"})

    app = FastAPI()
    serving.add_ready(app, "http://engine:30000", httpx.MockTransport(answer))
    assert (await ask(app, "GET", "/ready")).status_code == expected
    assert asked == ["http://engine:30000/generate"]


def test_the_default_of_the_core_version_is_the_one_that_is_published() -> None:
    assert Environment("u", "t", "qwen3").core_version is CoreVersion.V1


def test_the_dockerfile_checks_the_contract_after_the_package_is_there() -> None:
    lines = (IMAGE / "Dockerfile").read_text(encoding="utf-8").splitlines()
    installed = next(at for at, line in enumerate(lines) if line.startswith("COPY --from=package"))
    checked = next(at for at, line in enumerate(lines) if line.startswith("RUN python -m start check"))
    assert installed < checked


def test_the_lock_names_the_version_of_the_recorded_list_with_its_hash() -> None:
    text = (IMAGE / "requirements.lock").read_text(encoding="utf-8")
    assert "miles-rl==0.0.2 " in text
    assert "--hash=sha256:" in text
