"""What compose.yaml says of a service, as data: for whoever has to say the same in another system's words.

Read by this program itself, since Compose may not be there. Only what compose.yaml uses is understood, and whatever
else stands there is refused, so that nothing can be left out unseen. A test holds it against Compose's own reading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from runner.base.errors import InfrastructureError

COMPOSE = "compose.yaml"

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}|\$(?P<dollar>\$)|(?P<other>\$)")
_DURATION = re.compile(r"(\d+)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+)([kmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def seconds(text: object) -> float:
    """`1m30s` -> 90.0. Raises ValueError for anything else."""
    parts = _DURATION.findall(str(text))
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != str(text):
        raise ValueError(f"{text!r} is no duration")
    return sum(int(number) * _SECONDS[unit] for number, unit in parts)


def size(text: object) -> int:
    """`2g` -> bytes. Raises ValueError for anything else."""
    match = _SIZE.fullmatch(str(text))
    if match is None:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * _UNITS[match[2].lower()]


def _tmpfs(lines: object) -> object:
    """`/tmp:mode=1777,size=64m` -> {"/tmp": 64 MiB}."""
    if not isinstance(lines, list):
        return lines
    sizes = {}
    for line in lines:
        path, _, options = str(line).partition(":")
        known = dict(option.partition("=")[::2] for option in options.split(",") if option)
        sizes[path] = size(known.get("size", "0"))
    return sizes


def _ids(text: object) -> object:
    return [int(part) for part in str(text).split(":")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Seconds = Annotated[float, BeforeValidator(seconds)]
Size = Annotated[int, BeforeValidator(size)]


class Health(_Model):
    """A health check: `test` runs inside the container."""

    test: list[str]
    interval: Seconds
    timeout: Seconds
    retries: int
    start_period: Seconds


class Service(_Model):
    """One service. Sizes in bytes, 0 for no limit; `user` is user and group; `tmpfs` is path -> size."""

    image: str
    user: Annotated[tuple[int, int], BeforeValidator(_ids)]
    cap_drop: list[str]
    security_opt: list[str]
    read_only: bool
    environment: dict[str, str] = Field(default_factory=dict)
    command: list[str] = Field(default_factory=list)
    volumes: list[str] = Field(default_factory=list)
    tmpfs: Annotated[dict[str, int], BeforeValidator(_tmpfs)] = Field(default_factory=dict)
    mem_limit: Size
    shm_size: Size = 0
    pids_limit: int
    stop_grace_period: Seconds
    healthcheck: Health | None = None
    labels: dict[str, str]
    ports: list[str] = Field(default_factory=list)
    init: bool = False
    restart: str = "no"
    scale: int = 1
    profiles: list[str] = Field(default_factory=list)
    depends_on: dict[str, dict[str, str]] = Field(default_factory=dict)
    logging: dict[str, Any] = Field(default_factory=dict)

    @property
    def port(self) -> int:
        """The port inside the container, 0 for none."""
        return int(self.ports[0].rpartition(":")[2]) if self.ports else 0


def services(root: Path, variables: Mapping[str, str]) -> dict[str, Service]:
    """Every service of compose.yaml under these variables.

    Raises InfrastructureError where the file cannot be read or says something that is not understood here.
    """
    path = root / COMPOSE
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = {name: _service(row, variables) for name, row in loaded["services"].items()}
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise InfrastructureError(f"{path} cannot be read: {error}", "git status") from error
    except (ValidationError, ValueError) as error:
        raise InfrastructureError(f"{path} says something that is not understood here: {error}") from error
    return found


def _service(row: Any, variables: Mapping[str, str]) -> Service:
    return Service.model_validate(_filled(row, variables))


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """The value with every `${NAME:-default}` filled in; an empty variable counts as none, as in Compose."""
    if isinstance(value, dict):
        return {key: _filled(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, variables) for item in value]
    return _VARIABLE.sub(lambda match: _value(match, variables), value) if isinstance(value, str) else value


def _value(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["dollar"]:
        return "$"
    if match["other"]:
        raise ValueError(f"{match.string!r}: a variable in another form than ${{NAME}} or ${{NAME:-default}}")
    return variables.get(match["name"], "") or match["default"] or ""
