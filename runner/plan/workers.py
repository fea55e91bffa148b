"""The session servers of a lease that runs: how many of each version, where each answers, and which one it is.

What was planned is a number; this is what became of it, told by the host to the verifier. It is a file beside the plan,
because a verifier in a container cannot ask Docker. Without the file there is one worker per service, at the service's
own address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.base.errors import ConfigurationError

WORKERS_NAME = "workers.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Worker(_Model):
    """One session server. `url` is as the verifier sees it, `published` as the host does, where they differ."""

    name: str
    url: str
    published: str = ""
    instance_id: str | None = None
    """What `/health` must give as its id, None where nobody knows it beforehand."""


class Workers(_Model):
    """All session servers of a lease: service -> its workers, in the order in which the plan counts them."""

    services: dict[str, list[Worker]] = Field(default_factory=dict)


def alone(urls: Mapping[str, str]) -> dict[str, Sequence[Worker]]:
    """One worker per service, at the service's own URL."""
    return {service: [Worker(name=service, url=url)] for service, url in urls.items()}


def read_workers(path: Path) -> Workers | None:
    """The workers in this file, or None where there is no file.

    Raises:
        ConfigurationError: the file is there and is not what the host writes.
    """
    try:
        return Workers.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise ConfigurationError([f"{path} does not say where the workers are: {str(error).splitlines()[0]}"]) from None
