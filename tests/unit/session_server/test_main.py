"""How the process serves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from session_server.__main__ import serve
from session_testing.server import make_settings


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Serving sets the garbage collector up for a process of its own."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_an_idle_connection_outlives_the_clients_patience(qwen_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs: list[uvicorn.Config] = []
    monkeypatch.setattr(uvicorn.Server, "run", lambda server: configs.append(server.config))
    settings = make_settings(qwen_path, engine_url="http://127.0.0.1:9", core_version="v2")
    assert serve(settings) == 0
    [config] = configs
    patience = httpx.Limits().keepalive_expiry
    assert patience is not None
    assert config.timeout_keep_alive > 2 * patience
    assert (config.host, config.port) == (settings.host, settings.port)
    assert config.timeout_graceful_shutdown == settings.shutdown_grace_seconds
