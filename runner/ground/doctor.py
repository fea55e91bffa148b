"""Look at the machine and say, per thing a run needs, whether it is there and which line mends it.

Nothing is set up: what `make e2e` would set up by itself is a warning that says so, what it cannot is a failure. The
only containers started are two short probes (loopback port, GPU), removed before this returns, and only where an
image to start is here. A check that breaks is reported as such and never hides the others.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import InfrastructureError
from runner.ground import base, compose, daemon, nvidia, packages, probe
from runner.ground.check import Check, Status, to_lines, worst
from runner.ground.client import Docker, Info
from runner.ground.engine import Engine, Found, check_api, find, where
from runner.ground.shell import Run, run
from runner.ground.site import RUN_LABEL, Site
from runner.plan.model import EngineKind

__all__ = ["Check", "Status", "diagnose", "to_lines", "worst"]

PYTHON = (3, 11)
DISK = 8 << 30
"""Bytes free where Docker stores: the CPU engine's image (2 GB), its build, the other images, logs."""

MEMORY = 6 << 30
"""Bytes available: the CPU engine (2.5 GB), two session servers, the runner, a build beside them."""

_BUILT_AT_NEED = "make e2e   # sets it up by itself"


@dataclass(frozen=True)
class _Visit:
    """What the checks share: each looks at the machine once."""

    site: Site
    client: Docker
    run: Run
    found: Found
    info: Info | None
    image: str
    """An image that a probe can start, or empty."""

    @property
    def engine(self) -> Engine | None:
        return self.found.engine

    @property
    def local(self) -> bool:
        """Whether the engine's machine is this one."""
        return self.engine is not None and (not self.engine.host or self.engine.host.startswith("unix://"))


def diagnose(site: Site, run: Run = run) -> list[Check]:
    """Every check, in the order in which things are needed. Changes nothing."""
    client = Docker(run=run)
    found = find(client)
    info, image = None, ""
    if found.engine is not None:
        client = Docker(found.engine.env, run)
        info, image = client.info(), _probe_image(site, client)
    visit = _Visit(site, client, run, found, info, image)
    checks: list[tuple[str, Callable[[_Visit], Check]]] = [
        ("python", _python),
        ("docker command", _command),
        ("docker engine", _engine),
        ("compose", _compose),
        ("builder", _builder),
        ("base image", _base),
        ("disk", _disk),
        ("memory", _memory),
        ("loopback ports", _loopback),
        ("leftovers", _leftovers),
    ]
    results = [_guarded(name, check, visit) for name, check in checks]
    if site.engine is EngineKind.GPU:
        chain = nvidia.look(visit.run, visit.info)
        results += [*nvidia.checks(chain, site.gpus), _guarded("gpu in a container", _device, visit)]
    return results


def _guarded(name: str, check: Callable[[_Visit], Check], visit: _Visit) -> Check:
    try:
        return check(visit)
    except (InfrastructureError, OSError) as error:
        return Check(name, Status.WARN, f"could not be looked at: {str(error).splitlines()[0]}")


def _python(visit: _Visit) -> Check:
    version = platform.python_version()
    if sys.version_info[:2] >= PYTHON:
        return Check("python", Status.OK, version)
    return Check(
        "python", Status.FAIL, f"{version}; {PYTHON[0]}.{PYTHON[1]} is needed", "sudo apt-get install -y python3.11"
    )


def _command(visit: _Visit) -> Check:
    path = shutil.which("docker")
    if path is None:
        may = visit.engine is None and _may_set_up(visit) is None
        return Check(
            "docker command",
            Status.WARN if may else Status.FAIL,
            "not on PATH",
            _BUILT_AT_NEED if may else packages.CLIENT_LINE,
        )
    version = visit.engine.client_version if visit.engine else visit.client.versions()[0].client.version
    return Check("docker command", Status.OK, f"{version} ({path})")


def _engine(visit: _Visit) -> Check:
    name = "docker engine"
    if visit.engine is None:
        refusal = _may_set_up(visit)
        if refusal is None:
            return Check(name, Status.WARN, "none answers; root on this machine can set it up", _BUILT_AT_NEED)
        return Check(name, Status.FAIL, refusal.message, refusal.hint)
    found = f"{visit.engine.version}, API {visit.engine.api_version}, {where(visit.engine)}"
    try:
        check_api(visit.engine)
    except InfrastructureError as error:
        return Check(name, Status.FAIL, error.message, error.hint)
    return Check(name, Status.OK, found)


def _may_set_up(visit: _Visit) -> InfrastructureError | None:
    try:
        daemon.refuse(daemon.Machine.here(), visit.client, visit.found)
    except InfrastructureError as error:
        return error
    return None


def _compose(visit: _Visit) -> Check:
    found, own = compose.find(visit.site, visit.client.env, visit.run)
    if found is not None:
        return Check("compose", Status.OK, f"{found.version}{', private to this project' if found.private else ''}")
    minimum = f"{compose.MINIMUM[0]}.{compose.MINIMUM[1]}"
    what = f"{own} is older than {minimum}" if own else f"no Compose v2 (at least {minimum})"
    if not compose.installable():
        return Check("compose", Status.FAIL, what, compose.INSTALL)
    return Check("compose", Status.WARN, f"{what}; {compose.PIN.version} can be installed privately", _BUILT_AT_NEED)


def _builder(visit: _Visit) -> Check:
    if visit.engine is None:
        return Check("builder", Status.WARN, "unknown without an engine")
    version = visit.client.buildx_version()
    return Check("builder", Status.OK, version or "legacy builder (no buildx); slower and enough")


def _base(visit: _Visit) -> Check:
    if visit.engine is None:
        return Check("base image", Status.WARN, "unknown without an engine")
    found = base.find(visit.site, visit.client)
    if found is not None:
        return Check("base image", Status.OK, f"{found.image} ({found.origin})")
    if visit.site.base_image:
        line = f"docker pull {visit.site.base_image}   # or unset BASE_IMAGE"
        return Check("base image", Status.WARN, f"BASE_IMAGE={visit.site.base_image} is not here", line)
    return Check("base image", Status.WARN, f"{base.OFFICIAL} is not here; pulled or replaced at need", _BUILT_AT_NEED)


def _disk(visit: _Visit) -> Check:
    name = "disk"
    if visit.info is None:
        return Check(name, Status.WARN, "unknown without an engine")
    folder = Path(visit.info.root_dir)
    if not visit.local or not folder.is_dir():
        return Check(name, Status.WARN, f"unknown: {folder} is on the engine's machine {visit.info.name}")
    free = shutil.disk_usage(folder).free
    found = f"{_gib(free)} free under {folder}, {_gib(DISK)} wanted"
    if free >= DISK:
        return Check(name, Status.OK, found)
    return Check(name, Status.FAIL, found, "docker system df   # then remove what you can spare")


def _memory(visit: _Visit) -> Check:
    name = "memory"
    if visit.info is None or visit.local:
        available = _available()
        if available:
            found = f"{_gib(available)} available, {_gib(MEMORY)} wanted"
            mend = "ps -eo rss,pid,comm --sort=-rss | head   # what holds it"
            return Check(name, Status.OK, found) if available >= MEMORY else Check(name, Status.WARN, found, mend)
    if visit.info is None:
        return Check(name, Status.WARN, "unknown")
    found = f"the engine's machine has {_gib(visit.info.memory)}, {_gib(MEMORY)} wanted"
    if visit.info.memory >= MEMORY:
        return Check(name, Status.OK, found)
    return Check(
        name, Status.FAIL, found, "give the engine's machine (Docker Desktop: Settings, Resources) more memory"
    )


def _loopback(visit: _Visit) -> Check:
    name = "loopback ports"
    if not visit.image:
        return Check(name, Status.WARN, "not tried: no image is here to start one with")
    if not visit.local:
        return Check(
            name, Status.WARN, f"not tried: the engine is on another machine ({visit.engine and visit.engine.host})"
        )
    said = probe.publish(visit.client, visit.image)
    if not said:
        return Check(name, Status.OK, "a port published on 127.0.0.1 connects")
    return Check(
        name, Status.FAIL, said, "sudo iptables -t nat -L DOCKER -n   # are Docker's rules there, is the firewall?"
    )


def _leftovers(visit: _Visit) -> Check:
    if visit.engine is None:
        return Check("leftovers", Status.WARN, "unknown without an engine")
    counts = visit.client.resources(RUN_LABEL)
    if not any(counts.values()):
        return Check("leftovers", Status.OK, "none")
    found = ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items() if count)
    return Check(
        "leftovers", Status.WARN, f"{found} of runs that go on or were killed", "make sweep   # spares runs that go on"
    )


def _device(visit: _Visit) -> Check:
    name = "gpu in a container"
    if not visit.image:
        return Check(name, Status.WARN, "not tried: no image is here to start one with")
    said = probe.device(visit.client, visit.image, visit.site.gpus)
    if not said:
        return Check(name, Status.OK, f"a container gets {', '.join(visit.site.gpus) or 'all devices'}")
    return Check(name, Status.FAIL, said, nvidia.CONFIGURE)


def _probe_image(site: Site, client: Docker) -> str:
    """An image with Python that is here."""
    found = base.find(site, client)
    if found is not None:
        return found.image
    return base.OFFLINE if client.image(base.OFFLINE) else ""


def _available() -> int:
    """Bytes that a new process could have, or 0 where the kernel does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if sys.platform == "darwin" else 0


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
