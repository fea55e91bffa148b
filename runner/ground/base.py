"""The image that all of ours are built on: the official Python image, or a stand-in made from Debian's packages.

In this order: BASE_IMAGE, the official image where the engine has it, a stand-in made earlier by the same script, the
official image pulled, a stand-in made now. A stand-in that is here goes before a pull, so that two runs of one machine
build on the same base. It carries this machine's extra certificate authorities and is never pushed anywhere.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from runner.base.errors import InfrastructureError
from runner.base.events import Emit, NoteEvent, PhaseEvent
from runner.ground import packages
from runner.ground.client import Docker
from runner.ground.engine import MACHINE
from runner.ground.lock import held
from runner.ground.shell import Run, run
from runner.ground.site import IMAGE_PREFIX, LABEL, Site

OFFICIAL = "python:3.11-slim-bookworm"
SUITE = "bookworm"
OFFLINE = f"{IMAGE_PREFIX}/base:{SUITE}"
BASE_LABEL = f"{LABEL}.base"

SCRIPT = Path("images/base/offline-base.sh")
CERTIFICATES = Path("/usr/local/share/ca-certificates")

_PULL_TIMEOUT = 300.0
"""Seconds; the image is about 50 MB. Where no registry can be reached it fails within a second."""

_MAKE_TIMEOUT = 900.0
"""Seconds; about 100 on two cores."""


class Origin(StrEnum):
    """How the base was got."""

    CHOSEN = "chosen by BASE_IMAGE"
    PRESENT = "present"
    PULLED = "pulled"
    OFFLINE_PRESENT = "offline base, made earlier"
    OFFLINE_MADE = "offline base, made now"


@dataclass(frozen=True)
class Base:
    """A base image. `key` changes exactly when images built on it must be built again."""

    image: str
    origin: Origin
    key: str


def offline_key(site: Site, certificates: Path = CERTIFICATES) -> str:
    """12 hex digits over the script and this machine's extra certificates: what a stand-in is made from."""
    digest = hashlib.sha256((site.root / SCRIPT).read_bytes())
    for certificate in sorted(certificates.rglob("*.crt")):
        digest.update(certificate.read_bytes())
    return digest.hexdigest()[:12]


def find(site: Site, client: Docker) -> Base | None:
    """The base that needs neither a download nor a build, or None."""
    if site.base_image:
        return Base(site.base_image, Origin.CHOSEN, site.base_image) if client.image(site.base_image) else None
    if client.image(OFFICIAL):
        return Base(OFFICIAL, Origin.PRESENT, OFFICIAL)
    key = offline_key(site)
    image = client.image(OFFLINE)
    if image is not None and image.labels.get(BASE_LABEL) == key:
        return Base(OFFLINE, Origin.OFFLINE_PRESENT, f"{OFFLINE}@{key}")
    return None


def ensure(site: Site, emit: Emit, env: Mapping[str, str] | None = None, run: Run = run) -> Base:
    """The base image, present when this returns. Raises InfrastructureError with the line to run."""
    client = Docker(env or {}, run)
    base = find(site, client)
    if base is None:
        with held(site.locks / "base.lock", timeout=_MAKE_TIMEOUT):
            base = find(site, client) or _get(site, client, emit, run)
    emit(NoteEvent(message=f"base image {base.image} ({base.origin})"))
    return base


def _get(site: Site, client: Docker, emit: Emit, run: Run) -> Base:
    wanted = site.base_image or OFFICIAL
    emit(PhaseEvent(lease=MACHINE, phase="preparing", detail=f"pulling {wanted} (at most {_PULL_TIMEOUT:.0f} s)"))
    pulled = client.pull(wanted, timeout=_PULL_TIMEOUT, on_line=lambda line: None)
    if pulled.ok:
        return Base(wanted, Origin.CHOSEN if site.base_image else Origin.PULLED, wanted)
    if site.base_image:
        pulled.check(
            f"BASE_IMAGE={site.base_image} is neither here nor can it be pulled",
            "correct or unset BASE_IMAGE; without it the official image or an offline base is used",
        )
    emit(NoteEvent(message=f"{wanted} cannot be pulled: {pulled.tail(1)}"))
    return _make(site, client, emit, run, why=pulled.tail(1))


def _make(site: Site, client: Docker, emit: Emit, run: Run, why: str) -> Base:
    if shutil.which("mmdebstrap") is None or os.geteuid() != 0:
        _may_make(why)
        emit(PhaseEvent(lease=MACHINE, phase="preparing", detail="installing mmdebstrap to make an offline base"))
        packages.install(run, "mmdebstrap")
    key = offline_key(site)
    log = site.logs / "offline-base.log"
    detail = f"making the offline base {OFFLINE} from Debian packages, about 2 minutes, log {log}"
    emit(PhaseEvent(lease=MACHINE, phase="building", detail=detail))
    log.unlink(missing_ok=True)
    run(
        ("bash", str(site.root / SCRIPT), SUITE, OFFLINE, f"{BASE_LABEL}={key}"),
        timeout=_MAKE_TIMEOUT,
        env=client.env,
        log=log,
    ).check("the offline base could not be made", f"docker pull {OFFICIAL}   # once, where a registry can be reached")
    return Base(OFFLINE, Origin.OFFLINE_MADE, f"{OFFLINE}@{key}")


def _may_make(why: str) -> None:
    """Raise InfrastructureError unless mmdebstrap may be installed and run here."""
    line = f"docker pull {OFFICIAL}   # or set BASE_IMAGE to a Debian-like image with Python 3.11"
    if os.geteuid() != 0:
        raise InfrastructureError(
            f"{OFFICIAL} cannot be pulled ({why}), and only root can make an offline base from Debian packages", line
        )
    if shutil.which("apt-get") is None:
        raise InfrastructureError(
            f"{OFFICIAL} cannot be pulled ({why}), and an offline base needs mmdebstrap, which is not here", line
        )
