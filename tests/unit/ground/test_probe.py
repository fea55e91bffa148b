"""The probes: what they start, what they conclude, and that they leave nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from runner.ground import probe
from runner.ground.client import Docker
from runner.ground.shell import Result
from tests.unit.ground.conftest import FakeRun, failed


@contextlib.contextmanager
def server(greeting: bytes) -> Iterator[int]:
    """A listener on 127.0.0.1 that says `greeting` once per connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stop = threading.Event()

        def serve() -> None:
            listener.settimeout(0.1)
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.sendall(greeting)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def docker(fake: FakeRun) -> Docker:
    """Containers start and are removed."""
    fake.on("docker run", "id")
    fake.on("docker rm", "")
    return Docker(run=fake)


def removed(fake: FakeRun) -> bool:
    """Whether exactly the container that was started was removed."""
    start = fake.called("docker run")[0]
    return fake.called("docker rm") == [("docker", "rm", "--force", start[start.index("--name") + 1])]


def test_a_port_that_answers_is_good_and_the_container_is_removed(fake: FakeRun, docker: Docker) -> None:
    with server(b"here") as port:
        fake.on("docker port", f"127.0.0.1:{port}\n")
        assert probe.publish(docker, "python") == ""
    assert "127.0.0.1::8000" in fake.called("docker run")[0]
    assert "io.github.tito-e2e.probe" in fake.called("docker run")[0]
    assert removed(fake)


def test_a_proxy_that_connects_with_nothing_behind_it_is_not_good(
    fake: FakeRun, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_CONNECT", 0.4)
    with server(b"") as port:
        fake.on("docker port", f"127.0.0.1:{port}\n")
        assert "did not answer within" in probe.publish(docker, "python")
    assert removed(fake)


def test_a_container_that_does_not_start_says_why_and_is_removed(fake: FakeRun, docker: Docker) -> None:
    stderr = "docker: Error response from daemon: iptables failed.\n\nRun 'docker run --help' for more information\n"
    fake.on("docker run", failed(stderr, 125))
    assert probe.publish(docker, "python") == "Error response from daemon: iptables failed."
    assert removed(fake)


def test_no_host_port_is_said(fake: FakeRun, docker: Docker) -> None:
    fake.on("docker port", failed("no public port"))
    assert probe.publish(docker, "python") == "the engine names no host port for 8000"


@pytest.mark.parametrize(("gpus", "wanted"), [((), "all"), (("0", "GPU-b"), '"device=0,GPU-b"')])
def test_a_device_is_asked_for_as_the_run_names_it(
    fake: FakeRun, docker: Docker, gpus: tuple[str, ...], wanted: str
) -> None:
    assert probe.device(docker, "python", gpus) == ""
    call = fake.called("docker run")[0]
    assert call[call.index("--gpus") + 1] == wanted
    assert removed(fake)


def test_a_failure_without_a_word_still_has_a_text() -> None:
    assert probe.why(Result(("docker",), 137)) == "ended with 137"
