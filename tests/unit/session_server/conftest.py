"""The session server is a package of its own; its tests run in the repository's environment."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# a busy machine is no failure
hypothesis.settings.register_profile(
    "session_server", deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("session_server")

_HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE))
sys.path.insert(0, str(_HERE.parents[2] / "images" / "session-server"))

from session_server.observe import logs  # noqa: E402
from session_server.settings import LogLevel  # noqa: E402
from session_server.tito.vocabulary import Vocabulary  # noqa: E402
from session_testing.server import Client, make_settings, serving  # noqa: E402
from session_testing.tokenizers import qwen_checkpoint  # noqa: E402

Start = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="session", autouse=True)
def quiet_logs() -> None:
    """Only errors are written while tests run."""
    logs.configure(LogLevel.ERROR, "test-instance")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The server runs on asyncio."""
    return "asyncio"


@pytest.fixture(scope="session")
def qwen_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint directory with a tokenizer of Qwen's shape."""
    return qwen_checkpoint(tmp_path_factory.mktemp("qwen3"))


@pytest.fixture(scope="session")
def qwen(qwen_path: Path) -> Vocabulary:
    """The vocabulary of that checkpoint."""
    return Vocabulary.load(qwen_path, trust_remote_code=False)


@pytest.fixture
def start(qwen_path: Path, qwen: Vocabulary) -> Start:
    """Starts a server with a scripted engine: `async with start(core_version="v2") as client:`."""

    @asynccontextmanager
    async def starting(vocabulary: Vocabulary = qwen, **fields: Any) -> AsyncIterator[Client]:
        async with serving(make_settings(qwen_path, **fields), vocabulary) as client:
            yield client

    return starting


@pytest.fixture
async def v1(start: Start) -> AsyncIterator[Client]:
    """A v1 server."""
    async with start(core_version="v1") as client:
        yield client


@pytest.fixture
async def v2(start: Start) -> AsyncIterator[Client]:
    """A v2 server."""
    async with start(core_version="v2") as client:
        yield client
