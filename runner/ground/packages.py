"""Debian packages that the ground installs when it may: the engine, its client, the maker of the offline base."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from runner.ground.shell import Result, Run

ENGINE = ("docker.io", "iptables", "ca-certificates")
ENGINE_LINE = "sudo apt-get update && sudo apt-get install -y docker.io"
CLIENT_LINE = "sudo apt-get update && sudo apt-get install -y docker-cli || sudo apt-get install -y docker.io"

_UPDATE = 300.0
_INSTALL = 900.0
_LOCK_WAIT = 300
"""Seconds to wait for another apt that holds the lock, a usual sight on a machine that has just come up."""


def dockerd() -> str | None:
    """Path of dockerd; it lies in an sbin folder that is not on everybody's PATH."""
    return shutil.which("dockerd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin:/sbin")


def install(run: Run, *names: str) -> None:
    """Install packages without asking. Raises InfrastructureError with apt's last lines."""
    line = f"apt-get update && apt-get install -y {' '.join(names)}"
    _apt(run, ("update", "-qq"), _UPDATE).check("the package lists could not be updated", line)
    _apt(run, ("install", "-y", "-qq", "--no-install-recommends", *names), _INSTALL).check(
        f"{' '.join(names)} could not be installed", line
    )


def install_engine(run: Run) -> None:
    """Install docker.io, and the client where the release keeps it apart. Raises InfrastructureError."""
    if dockerd() is None:
        install(run, *ENGINE)
    if shutil.which("docker") is None:
        install(run, "docker-cli")


def _apt(run: Run, arguments: Sequence[str], timeout: float) -> Result:
    return run(
        ("apt-get", "-o", f"DPkg::Lock::Timeout={_LOCK_WAIT}", *arguments),
        timeout=timeout,
        env={"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"},
    )
