"""The docker command line, one typed function per thing that the ground asks of it.

The command line and not the SDK, because it is what finds contexts, credentials, BuildKit and plugins the way the user
has set them up. Answers are read as JSON into models that ignore what they don't know, so that client and engine may be
of different ages. Deliberately not here: containers of a stack; they belong to `runner.stack`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner.ground.shell import Result, Run, run

_QUICK = 20.0
"""Seconds for a question to the engine; a healthy one answers within one."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class ClientFacts(_Answer):
    """The command line itself."""

    version: str = Field(alias="Version", default="")
    context: str = Field(alias="Context", default="default")


class EngineFacts(_Answer):
    """The engine that answered."""

    version: str = Field(alias="Version", default="")
    api_version: str = Field(alias="ApiVersion", default="")
    min_api_version: str = Field(alias="MinAPIVersion", default="")
    os: str = Field(alias="Os", default="")
    arch: str = Field(alias="Arch", default="")


class Versions(_Answer):
    """Both sides; `server` is None where no engine answered."""

    client: ClientFacts = Field(alias="Client", default_factory=ClientFacts)
    server: EngineFacts | None = Field(alias="Server", default=None)


class _Endpoint(_Answer):
    host: str = Field(alias="Host", default="")


class Context(_Answer):
    """The context in effect: its name, its endpoint, whether it brings certificates."""

    name: str = Field(alias="Name", default="default")
    endpoints: dict[str, _Endpoint] = Field(alias="Endpoints", default_factory=dict)
    tls: dict[str, list[str]] = Field(alias="TLSMaterial", default_factory=dict)

    @property
    def host(self) -> str:
        """Where it connects to, as DOCKER_HOST would say it."""
        endpoint = self.endpoints.get("docker")
        return endpoint.host if endpoint else ""


class Info(_Answer):
    """What the engine says about its machine. Sizes in bytes."""

    root_dir: str = Field(alias="DockerRootDir", default="")
    memory: int = Field(alias="MemTotal", default=0)
    cpus: int = Field(alias="NCPU", default=0)
    operating_system: str = Field(alias="OperatingSystem", default="")
    architecture: str = Field(alias="Architecture", default="")
    runtimes: dict[str, object] = Field(alias="Runtimes", default_factory=dict)
    cdi_dirs: list[str] | None = Field(alias="CDISpecDirs", default=None)
    name: str = Field(alias="Name", default="")


class _ImageConfig(_Answer):
    labels: dict[str, str] | None = Field(alias="Labels", default=None)


class _ImageMetadata(_Answer):
    tagged: datetime | None = Field(alias="LastTagTime", default=None)


class ImageFacts(_Answer):
    """One image as the engine has it."""

    id: str = Field(alias="Id")
    tags: list[str] | None = Field(alias="RepoTags", default=None)
    created: datetime | None = Field(alias="Created", default=None)
    size: int = Field(alias="Size", default=0)
    config: _ImageConfig | None = Field(alias="Config", default=None)
    metadata: _ImageMetadata | None = Field(alias="Metadata", default=None)

    @property
    def labels(self) -> dict[str, str]:
        """Its labels, possibly none."""
        return (self.config.labels if self.config else None) or {}

    @property
    def used(self) -> float:
        """When it was last tagged, else created; seconds since the epoch, 0 where the engine does not say."""
        tagged = self.metadata.tagged if self.metadata else None
        if tagged is not None and tagged.year > 1:  # "0001-01-01": never tagged here
            return tagged.timestamp()
        return self.created.timestamp() if self.created is not None and self.created.year > 1 else 0.0


@dataclass(frozen=True)
class Docker:
    """The docker command with the environment it must be called in."""

    env: Mapping[str, str] = field(default_factory=dict)
    run: Run = run

    def _ask(self, *argv: str, timeout: float = _QUICK) -> Result:
        return self.run(("docker", *argv), timeout=timeout, env=self.env)

    def versions(self) -> tuple[Versions, Result]:
        """Versions of both sides and the raw result, whose stderr says why an engine did not answer."""
        result = self._ask("version", "--format", "{{json .}}")
        try:
            return Versions.model_validate_json(result.stdout.strip() or "{}"), result
        except ValidationError:
            return Versions(), result

    def context(self) -> Context:
        """The context in effect; the default one where the command line does not know contexts."""
        result = self._ask("context", "inspect")
        try:
            found = json.loads(result.stdout or "[]")
            return Context.model_validate(found[0]) if found else Context()
        except (ValidationError, json.JSONDecodeError):
            return Context()

    def info(self) -> Info | None:
        """Facts of the engine's machine, or None where it does not answer."""
        result = self._ask("info", "--format", "{{json .}}")
        try:
            return Info.model_validate_json(result.stdout) if result.ok else None
        except ValidationError:
            return None

    def compose_version(self) -> str:
        """Version of Compose v2, without a leading v, or empty."""
        result = self._ask("compose", "version", "--short")
        return result.stdout.strip().removeprefix("v") if result.ok else ""

    def buildx_version(self) -> str:
        """What buildx says of itself, or empty."""
        result = self._ask("buildx", "version")
        return result.stdout.strip() if result.ok else ""

    def image(self, reference: str) -> ImageFacts | None:
        """The image of this name or id, or None where the engine has none."""
        result = self._ask("image", "inspect", reference)
        if not result.ok:
            return None
        try:
            found = json.loads(result.stdout or "[]")
            return ImageFacts.model_validate(found[0]) if found else None
        except (ValidationError, json.JSONDecodeError):
            return None

    def image_ids(self, label: str) -> list[str]:
        """Ids of the images with this label (`name` or `name=value`), each once."""
        result = self._ask("image", "ls", "--no-trunc", "--quiet", "--filter", f"label={label}")
        return list(dict.fromkeys(result.stdout.split())) if result.ok else []

    def pull(self, reference: str, *, timeout: float, on_line: Callable[[str], None] | None = None) -> Result:
        """Pull an image."""
        return self.run(("docker", "pull", reference), timeout=timeout, env=self.env, on_line=on_line)

    def tag(self, reference: str, name: str) -> Result:
        """Give an image another name; the same name again marks it as used now."""
        return self._ask("tag", reference, name)

    def untag(self, reference: str) -> Result:
        """Remove one name, and the image with its last one; refused while a container uses it."""
        return self._ask("rmi", reference, timeout=120.0)

    def resources(self, label: str) -> dict[str, int]:
        """How many containers, networks and volumes bear the label."""
        questions = {
            "container": ("ps", "--all", "--quiet"),
            "network": ("network", "ls", "--quiet"),
            "volume": ("volume", "ls", "--quiet"),
        }
        counts = {}
        for kind, question in questions.items():
            result = self._ask(*question, "--filter", f"label={label}")
            counts[kind] = len(result.stdout.split()) if result.ok else 0
        return counts

    def images_of_containers(self) -> set[str]:
        """Image ids that any container, running or not, was made from."""
        ids = self._ask("ps", "--all", "--quiet", "--no-trunc")
        if not ids.ok or not ids.stdout.split():
            return set()
        return set(self._ask("inspect", "--format", "{{.Image}}", *ids.stdout.split()).stdout.split())

    def build(
        self,
        tag: str,
        *,
        context: Path,
        dockerfile: str,
        args: Mapping[str, str],
        labels: Mapping[str, str],
        builder: str | None,
        timeout: float,
        log: Path,
        on_line: Callable[[str], None],
        cancel: threading.Event,
    ) -> Result:
        """Build `tag` from the tar file `context`.

        With `builder` through buildx, by that builder (the one named like the docker context sees local images);
        with None by the legacy builder. An argument with an empty value takes it from the environment.
        """
        options: list[str] = ["--file", dockerfile, "--tag", tag]
        for name, value in args.items():
            options += ["--build-arg", f"{name}={value}" if value else name]
        for name, value in labels.items():
            options += ["--label", f"{name}={value}"]
        env = dict(self.env)
        if builder is None:
            command: Sequence[str] = ("docker", "build", "--force-rm", *options, "-")
            env["DOCKER_BUILDKIT"] = "0"
        else:
            command = (
                "docker",
                "buildx",
                "build",
                "--builder",
                builder,
                "--load",
                "--progress",
                "plain",
                *options,
                "-",
            )
        return self.run(command, timeout=timeout, env=env, stdin=context, log=log, on_line=on_line, cancel=cancel)

    def start(self, *options: str, image: str, command: Sequence[str], timeout: float = 60.0) -> Result:
        """`docker run --rm` with these options; stdout is what it printed."""
        return self._ask("run", "--rm", *options, image, *command, timeout=timeout)

    def port(self, container: str, port: int) -> str:
        """The host side `address:port` of a published port, or empty."""
        result = self._ask("port", container, str(port))
        return result.stdout.split("\n")[0].strip() if result.ok else ""

    def remove(self, container: str) -> Result:
        """Remove one container, running or not."""
        return self._ask("rm", "--force", container)
