"""KEEP=1: the verdict and its evidence are as ever, and the services stay for a person to look at."""

from __future__ import annotations

from collections.abc import Callable

import docker
import httpx

from runner.stack import labels
from runner.stack.sweep import find, remove
from tests.container.conftest import Left, Start


def test_a_kept_run_leaves_its_services_answering(
    start: Start, left: Callable[[str], Left], client: docker.DockerClient
) -> None:
    ended = start(KEEP="1").end()
    try:
        assert ended.code == 0, ended.stderr
        assert "`make down` removes it" in ended.stderr
        assert all(
            (ended.run_dir / f"logs/qwen3/{name}.log").read_text() for name in ("engine", "session-v1", "runner")
        )
        wanted = {"label": [f"{labels.RUN}={ended.run_id}", f"{labels.SERVICE}=session-v1"]}
        (server,) = client.containers.list(filters=wanted)
        (published,) = server.ports["8080/tcp"]
        health = httpx.get(f"http://{published['HostIp']}:{published['HostPort']}/health", timeout=10)
        assert health.status_code == 200
        # No other run removes it: it was meant to stay.
        assert start(name="next").end().code == 0
        assert left(ended.run_id)
    finally:
        for run in find(client, ended.run_id):
            problems = remove(client, run)
            assert problems == []
    assert not left(ended.run_id)
