"""The environment of the Compose service, as values for the one constructor.

Unknown names, missing values and wrong values are all told at once, before anything is imported or started.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from runner.base.errors import ConfigurationError

PREFIX = "SESSION_SERVER_"
ROLES = frozenset({"tool", "user", "system"})
"""What the published server can append to a sampled turn."""


class CoreVersion(StrEnum):
    """Which state machine the service is asked to be."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True)
class Environment:
    """What the service was told. `append_roles` is None where the server's own table decides."""

    engine_url: str
    tokenizer_path: str
    tito_model: str
    core_version: CoreVersion = CoreVersion.V1
    host: str = "0.0.0.0"  # noqa: S104 - a container's own network
    port: int = 8080
    instance_id: str = ""
    engine_timeout_seconds: float = 600.0
    append_roles: tuple[str, ...] | None = None
    log_level: str = "info"

    def values(self, append_roles: list[str], template_arguments: dict[str, object]) -> dict[str, object]:
        """Every field that the server reads, by the server's names."""
        return {
            "hf_checkpoint": self.tokenizer_path,
            "tito_model": self.tito_model,
            "session_server_ip": self.host,
            "session_server_port": self.port,
            "session_server_instance_id": self.instance_id or socket.gethostname(),
            "tito_allowed_append_roles": append_roles,
            "miles_router_timeout": self.engine_timeout_seconds,
            "chat_template_path": None,  # the checkpoint's, which the engine and the verifier use as well
            "apply_chat_template_kwargs": template_arguments or None,
            "use_rollout_routing_replay": False,
        }


def _port(text: str) -> int:
    number = int(text)
    if not 0 < number < 65536:
        raise ValueError(text)
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _roles(text: str) -> tuple[str, ...]:
    roles = tuple(role.strip() for role in text.split(","))
    if not set(roles) <= ROLES:
        raise ValueError(text)
    return roles


def _level(text: str) -> str:
    if text not in ("debug", "info", "warning", "error"):
        raise ValueError(text)
    return text


_READ: Mapping[str, tuple[Callable[[str], object], str]] = {
    "engine_url": (str, "the engine's base URL"),
    "tokenizer_path": (str, "a directory"),
    "tito_model": (str, "a family, e.g. qwen3"),
    "core_version": (CoreVersion, "v1 or v2"),
    "host": (str, "an address"),
    "port": (_port, "1 to 65535"),
    "instance_id": (str, "a name"),
    "engine_timeout_seconds": (_seconds, "seconds, more than 0"),
    "append_roles": (_roles, f"of {', '.join(sorted(ROLES))}, comma separated"),
    "log_level": (_level, "debug, info, warning or error"),
}
_REQUIRED = ("engine_url", "tokenizer_path", "tito_model")


def read_environment(environ: Mapping[str, str] | None = None) -> Environment:
    """Raises ConfigurationError with every problem of the environment."""
    given = os.environ if environ is None else environ
    problems = []
    found: dict[str, object] = {}
    for name, text in sorted(given.items()):
        if not name.startswith(PREFIX):
            continue
        field = name.removeprefix(PREFIX).lower()
        if field not in _READ:
            problems.append(f"{name}: the published server has no such setting")
            continue
        read, allowed = _READ[field]
        try:
            found[field] = read(text)
        except ValueError:
            problems.append(f"{name}={text!r}: allowed: {allowed}")
    problems += [
        f"{PREFIX}{field.upper()}: required, not set: {_READ[field][1]}"
        for field in _REQUIRED
        if f"{PREFIX}{field.upper()}" not in given
    ]
    if problems:
        raise ConfigurationError(problems)
    return Environment(**found)  # type: ignore[arg-type]
