"""An engine that does not answer is told as that, and waited for where that makes sense."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError, DockerException, NotFound
from docker.models.containers import Container

from runner.stack.client import NoAnswerError, answers, connect
from runner.stack.logs import LogFollower
from runner.stack.redact import Redactor


class _Engine(BaseHTTPRequestHandler):
    """As much of an engine as a client asks for when it is made."""

    def do_GET(self) -> None:
        found = {"/version": b'{"ApiVersion": "1.41"}', "/_ping": b"OK"}
        body = next((text for path, text in found.items() if self.path.endswith(path)), None)
        self.send_response(404 if body is None else 200)
        body = body or b'{"message": "no such container"}'
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True


@contextmanager
def engine(port: int = 0) -> Iterator[int]:
    """An engine on this port; it is gone afterwards."""
    with _Server(("127.0.0.1", port), _Engine) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def client_of(port: int) -> docker.DockerClient:
    return connect({"DOCKER_HOST": f"tcp://127.0.0.1:{port}"})


def test_an_engine_that_went_away_is_a_docker_error_of_its_own_kind() -> None:
    with engine() as port:
        client = client_of(port)
        assert client.ping()
        with pytest.raises(NotFound) as caught:
            client.containers.get("nothing")
        assert not isinstance(caught.value, NoAnswerError), "it answered"
    for ask in (client.ping, client.containers.list, client.info):
        with pytest.raises(NoAnswerError, match="the Docker engine does not answer"):
            ask()
    assert issubclass(NoAnswerError, DockerException)
    assert not issubclass(NoAnswerError, APIError)
    client.close()


def test_an_engine_that_comes_back_is_waited_for_and_one_that_does_not_only_so_long() -> None:
    with engine() as port:
        client = client_of(port)
        assert answers(client, 0)
    assert not answers(client, 0.1)
    with engine(port):
        assert answers(client, 30)
    client.close()


class _Container:
    """A container whose log stream gives `streamed` and whose log is `whole`."""

    def __init__(self, streamed: list[bytes], whole: bytes, status: str, *, gone: bool = False) -> None:
        self.status = status
        self._streamed, self._whole, self._gone = streamed, whole, gone
        self.fetched = 0

    def logs(self, *, stream: bool = False, **options: object) -> object:
        if stream:
            return iter(self._streamed)
        self.fetched += 1
        return self._whole

    def reload(self) -> None:
        if self._gone:
            raise NoAnswerError("the Docker engine does not answer")


@pytest.mark.parametrize(
    ("status", "gone", "text", "fetched"),
    [
        pytest.param("exited", False, "1 one\n", 0, id="the container ended"),
        pytest.param("running", False, "1 one\n2 two\n", 1, id="the stream ended, the container goes on"),
        pytest.param("exited", True, "1 one\n2 two\n", 1, id="the engine went away with the stream"),
    ],
)
def test_a_log_whose_stream_ended_before_the_container_is_fetched_again(
    tmp_path: Path, status: str, gone: bool, text: str, fetched: int
) -> None:
    container = _Container([b"1 one\n"], b"1 one\n2 two\n", status, gone=gone)
    path = tmp_path / "logs" / "engine.log"
    follower = LogFollower(cast(Container, container), path, Redactor([]))
    follower.finish()
    assert path.read_text() == text
    assert container.fetched == fetched
