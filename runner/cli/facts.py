"""environment.json: versions and digests of everything that took part. Facts only; nothing is decided from them."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException

from runner import __version__
from runner.ground.compose import Compose
from runner.ground.engine import Engine


def checkout(root: Path) -> dict[str, Any]:
    """Commit of this checkout and whether it was changed; empty where git cannot tell."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False, timeout=20
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return {}
    return {"commit": commit, "changed": bool(git("status", "--porcelain", "--untracked-files=no"))}


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
        "tito_e2e": {"version": __version__, **checkout(root)},
        "host": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
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
