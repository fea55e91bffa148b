"""environment.json: versions and digests of everything that took part. Facts only; nothing is decided from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException

from runner.cli.host import here
from runner.ground.compose import Compose
from runner.ground.engine import Engine


def image_facts(client: docker.DockerClient, references: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Id, digests and creation time of each image; an image that is not there yet is named with its error."""
    facts: dict[str, dict[str, Any]] = {}
    for kind, reference in references.items():
        try:
            attrs = client.images.get(reference).attrs
        except DockerException as error:
            facts[kind] = {"reference": reference, "error": str(error)}
            continue
        facts[kind] = {
            "reference": reference,
            "id": attrs["Id"],
            "digests": attrs.get("RepoDigests") or [],
            "created": attrs.get("Created"),
            "size_bytes": attrs.get("Size"),
        }
    return facts


def environment(
    root: Path,
    engine: Engine,
    compose: Compose,
    base_image: str | None,
    client: docker.DockerClient,
    references: Mapping[str, str],
    secrets: int,
) -> dict[str, Any]:
    """Everything that a person who reproduces this run would ask for. `base_image` is None where nothing was built."""
    info = client.info()
    return {
        **here(root),
        "docker": {
            "engine": engine.version,
            "api": engine.api_version,
            "client": engine.client_version,
            "storage_driver": info.get("Driver"),
            "cpus": info.get("NCPU"),
            "memory_bytes": info.get("MemTotal"),
            "runtimes": sorted(info.get("Runtimes") or {}),
        },
        "compose": compose.version,
        "base_image": base_image,
        "images": image_facts(client, references),
        "secrets_redacted_by_value": secrets,
    }
