"""One Compose project, driven through Testcontainers' Compose support.

Why a subclass of `DockerCompose`: it has no way to name the project, and a project name taken from the process
environment could not differ between two leases of one process. Profiles are given per call for the same reason that
`up --wait` is not used: it returns as soon as a service has ended, and says nothing while an engine loads.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tenacity
from testcontainers.compose import DockerCompose

from runner.base.errors import InfrastructureError
from runner.stack.ports import is_race
from runner.stack.variables import write_env_file

__all__ = ["ComposeError", "Project", "write_env_file"]

_PORT_TRIES = 3
_LAST_LINES = 15


class _NamedCompose(DockerCompose):
    """DockerCompose under an explicit project name."""

    project_name: str

    @cached_property
    def compose_command_property(self) -> list[str]:
        return [*super().compose_command_property, "--project-name", self.project_name]


class ComposeError(InfrastructureError):
    """A `docker compose` command ended with an error."""

    def __init__(self, command: Sequence[str], code: int, stderr: str) -> None:
        self.stderr = stderr
        lines = [line for line in stderr.splitlines() if line.strip()][-_LAST_LINES:]
        said = "\n".join(f"    | {line}" for line in lines) or "    | (it said nothing)"
        super().__init__(f"`{' '.join(command)}` ended with {code}:\n{said}")


def _is_port_race(error: BaseException) -> bool:
    return isinstance(error, ComposeError) and is_race(error.stderr)


class Project:
    """The containers of one lease."""

    def __init__(self, name: str, root: Path, env_file: Path, overrides: Sequence[Path] = ()) -> None:
        self.name = name
        self._root = root
        self._env_file = env_file
        self._files = [str(root / "compose.yaml"), *(str(path) for path in overrides)]

    def _compose(self, *, services: Sequence[str] = (), profile: str = "") -> _NamedCompose:
        compose = _NamedCompose(
            context=self._root,
            compose_file_name=list(self._files),
            env_file=str(self._env_file),
            services=list(services) or None,
            profiles=[profile] if profile else None,
            wait=False,
        )
        compose.project_name = self.name
        return compose

    def resolved(self) -> str:
        """The Compose configuration with every variable filled in, as `docker compose config` prints it."""
        compose = self._compose(profile="*")
        return self._call([*compose.docker_compose_command(), "config"])

    @tenacity.retry(
        retry=tenacity.retry_if_exception(_is_port_race),
        stop=tenacity.stop_after_attempt(_PORT_TRIES),
        wait=tenacity.wait_random(0.2, 1.0),
        reraise=True,
    )
    def up(self, services: Sequence[str]) -> None:
        """Create and start `services`. Returns as soon as they are started. Raises ComposeError."""
        compose = self._compose(services=services)
        try:
            compose.start()
        except subprocess.CalledProcessError as error:
            raise ComposeError(list(error.cmd), error.returncode, error.stderr.decode(errors="replace")) from None

    def create(self, service: str, profile: str) -> None:
        """Create one service's container without starting it. Raises ComposeError."""
        compose = self._compose(profile=profile)
        self._call([*compose.docker_compose_command(), "up", "--no-start", "--no-deps", "--no-recreate", service])

    def down(self) -> None:
        """Remove containers, network and volumes, those of profiles included. Raises ComposeError."""
        try:
            self._compose(profile="*").stop(down=True)
        except subprocess.CalledProcessError as error:
            raise ComposeError(list(error.cmd), error.returncode, error.stderr.decode(errors="replace")) from None

    def configuration(self) -> dict[str, Any]:
        """The same as data."""
        compose = self._compose(profile="*")
        loaded: dict[str, Any] = json.loads(
            self._call([*compose.docker_compose_command(), "config", "--format", "json"])
        )
        return loaded

    def images(self) -> dict[str, str]:
        """Service -> image reference, as resolved."""
        return {name: str(service["image"]) for name, service in self.configuration()["services"].items()}

    def _call(self, command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=self._root, check=False)
        if done.returncode != 0:
            raise ComposeError(command, done.returncode, done.stderr)
        return done.stdout
