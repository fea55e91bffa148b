"""The two proofs that only a container gives: a published port connects, a device can be had.

Each starts one short-lived container with a name and a label of its own and removes it, whatever happens.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from runner.ground.client import Docker
from runner.ground.shell import Result
from runner.ground.site import IMAGE_PREFIX, LABEL

PROBE_LABEL = f"{LABEL}.probe"

_PORT = 8000
_CONNECT = 15.0
"""Seconds until a published port must connect; about one is usual."""

_GREETING = b"here"
_SERVE = (
    "import socket\n"
    f"with socket.create_server(('', {_PORT})) as listener:\n"
    "    while True:\n"
    "        with listener.accept()[0] as connection:\n"
    f"            connection.sendall({_GREETING!r})\n"
)


def publish(client: Docker, image: str) -> str:
    """Publish a port on 127.0.0.1 and connect to it. Empty where it works, else what went wrong."""
    with _named(client) as name:
        options = ("--detach", "--name", name, "--label", PROBE_LABEL, "--publish", f"127.0.0.1::{_PORT}")
        started = client.start(*options, "--entrypoint", "python3", image=image, command=("-c", _SERVE))
        if not started.ok:
            return why(started)
        address, _, port = client.port(name, _PORT).rpartition(":")
        if not port.isdigit():
            return f"the engine names no host port for {_PORT}"
        return _greeting(address, int(port))


def device(client: Docker, image: str, gpus: Sequence[str]) -> str:
    """Start a container with these devices (none named: all). Empty where it works, else what went wrong."""
    wanted = f'"device={",".join(gpus)}"' if gpus else "all"
    with _named(client) as name:
        options = ("--name", name, "--label", PROBE_LABEL, "--gpus", wanted, "--network", "none")
        result = client.start(*options, "--entrypoint", "true", image=image, command=())
    return "" if result.ok else why(result)


def why(result: Result) -> str:
    """The one line of a failed docker command that says why."""
    lines = [line.strip() for line in (result.stderr or result.stdout).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Run 'docker", "See 'docker"))]
    errors = [line for line in telling if "error" in line.lower()]
    return (errors or telling or [f"ended with {result.code}"])[-1].removeprefix("docker: ")


@contextmanager
def _named(client: Docker) -> Iterator[str]:
    name = f"{IMAGE_PREFIX}-probe-{uuid.uuid4().hex[:12]}"
    try:
        yield name
    finally:
        client.remove(name)


def _greeting(address: str, port: int) -> str:
    deadline = time.monotonic() + _CONNECT
    last = "nothing came back"
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address, port), timeout=2.0) as connection:
                if connection.recv(16) == _GREETING:  # Docker's proxy connects before the server listens
                    return ""
        except OSError as error:
            last = str(error)
        time.sleep(0.1)
    return f"{address}:{port} did not answer within {_CONNECT:.0f} s: {last}"
