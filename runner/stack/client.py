"""Docker's API, with one addition: an engine that does not answer is told as that, whatever was being asked.

The SDK lets its HTTP library's errors through, which are no Docker errors. An engine that is restarted in the middle of
a run is a fault of the ground like any other, and it comes back: whoever cleans up waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import docker
import requests
import tenacity
from docker.errors import DockerException
from requests.adapters import BaseAdapter

_POLL_SECONDS = 0.5


class NoAnswerError(DockerException):
    """The engine does not answer: it is stopped or restarting, or the connection to it broke."""


class _Telling(BaseAdapter):
    """Hands on to the SDK's own adapter, and tells its errors in Docker's terms."""

    def __init__(self, inner: BaseAdapter) -> None:
        super().__init__()
        self._inner = inner

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        try:
            return self._inner.send(request, *args, **kwargs)
        except requests.RequestException as error:
            raise NoAnswerError(f"the Docker engine does not answer: {error}") from error

    def close(self) -> None:
        self._inner.close()


def connect(environment: Mapping[str, str] | None = None) -> docker.DockerClient:
    """The client of the engine that the environment (default: this process's) names.

    Its calls raise NoAnswerError, a DockerException, where the engine does not answer.
    """
    client = docker.from_env(environment=dict(environment) if environment is not None else None)
    for prefix, adapter in list(client.api.adapters.items()):
        client.api.mount(prefix, _Telling(adapter))
    return client


def answers(client: docker.DockerClient, seconds: float) -> bool:
    """Whether the engine answers, waiting for it at most this long."""

    def ask() -> bool:
        try:
            return bool(client.ping())
        except DockerException:
            return False

    waiting = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda there: not there),
        stop=tenacity.stop_after_delay(seconds),
        wait=tenacity.wait_fixed(_POLL_SECONDS),
        retry_error_callback=lambda state: False,
    )
    return bool(waiting(ask))
