"""Before a GPU run starts anything: every link from driver to weights is looked at, and all that miss are named.

The chain is the doctor's. A machine that does not have what was asked for - GPUs at all, as many of them, those that
are named, the weights - is wrong configuration. What is there and broken, or held by others, is infrastructure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import docker
from docker.errors import ImageNotFound

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.events import Emit, NoteEvent
from runner.base.settings import EngineKind, Settings
from runner.cli.stacks import ROOT
from runner.cli.weights import cache_dir, chat_template, snapshot
from runner.ground import nvidia
from runner.ground.check import Status
from runner.ground.doctor import diagnose
from runner.ground.shell import run as run_command
from runner.ground.site import Site
from runner.plan.model import Plan, PlannedLease
from runner.stack.devices import Devices

__all__ = ["cache_dir", "chat_template", "devices_for", "free_devices", "have_image", "preflight", "snapshot"]

_FREE_SHARE = 0.9
"""A device counts as free where this part of its memory is."""


def preflight(settings: Settings, plan: Plan) -> Plan:
    """The plan with the place of each model's files in it; a place that it has already must be there.

    Starts nothing that stays. Both errors have everything that is missing, each with the line that mends it.

    Raises:
        ConfigurationError: this machine does not have what was asked for.
        InfrastructureError: it has, and something of it does not work or is in use.
    """
    wanted = tuple(str(index) for index in settings.gpus)
    site = Site.here(ROOT, base_image=settings.base_image, engine=EngineKind.GPU, gpus=wanted)
    problems = [
        _problem(check.name, check.found, check.mend) for check in diagnose(site) if check.status is Status.FAIL
    ]
    chain = nvidia.look(run_command, None)
    absent = not chain.driver or _unknown(chain, wanted)
    leases: list[PlannedLease] = []
    usable = free_devices(settings)
    for lease in plan.leases:
        if lease.gpus > len(usable):
            found = f"{lease.family} needs {lease.gpus}, and {len(usable)} can be used ({', '.join(usable) or 'none'})"
            problems.append(_problem("gpus", found, _HELD if lease.gpus <= len(chain.devices) else _ABSENT))
            absent |= 0 < len(chain.devices) < lease.gpus
        try:
            place = snapshot(cache_dir(settings), lease.model)
            if lease.tokenizer not in (lease.model, str(place)):
                raise InfrastructureError(
                    f"recorded with {lease.tokenizer}, the cache has {place}", "fetch that revision"
                )
            leases.append(lease.model_copy(update={"tokenizer": str(place)}))
        except InfrastructureError as error:
            problems.append(_problem(f"weights of {lease.family}", error.message, error.hint))
            absent = True
        try:
            chat_template(lease)
        except InfrastructureError as error:
            problems.append(_problem(f"chat template of {lease.family}", error.message, error.hint))
    if problems and absent:
        raise ConfigurationError([f"ENGINE=gpu: {problem}" for problem in problems])
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise InfrastructureError(
            f"ENGINE=gpu cannot run on this machine; nothing was started:\n{listed}", "make doctor ENGINE=gpu"
        )
    return plan.model_copy(update={"leases": leases})


_HELD = "nvidia-smi   # who holds the others; or GPUS=... to name devices"
_ABSENT = "make doctor ENGINE=gpu   # what this machine has; without ENGINE=gpu the engine runs on the CPU"


def _problem(name: str, found: str, mend: str) -> str:
    return f"{name}: {found}" + (f"\n      -> {mend}" if mend else "")


def _unknown(chain: nvidia.Chain, wanted: Sequence[str]) -> bool:
    """Whether GPUS names a device that this machine does not have; not told where none answers."""
    known = {name for device in chain.devices for name in (device.index, device.uuid)}
    return bool(known) and not known.issuperset(wanted)


def have_image(client: docker.DockerClient, reference: str, emit: Emit) -> None:
    """Pull an image that is not here. Raises DockerException where it cannot be had."""
    try:
        client.images.get(reference)
    except ImageNotFound:
        emit(NoteEvent(message=f"pulling {reference} (tens of GB the first time)"))
        client.images.pull(reference)


@contextmanager
def devices_for(settings: Settings, lease: PlannedLease) -> Iterator[tuple[str, ...]]:
    """Hold the devices of one lease, without waiting for them; none for a lease without GPUs.

    Raises InfrastructureError where not as many are free.
    """
    usable = free_devices(settings) if lease.gpus else []
    taken = Devices(usable).take(lease.gpus)
    if taken is None:
        raise InfrastructureError(
            f"{lease.family} needs {lease.gpus} GPUs, and another run holds them, out of {', '.join(usable) or 'none'}",
            "wait for its end, or name other devices: GPUS=...",
        )
    try:
        yield taken.names
    finally:
        taken.release()


def free_devices(settings: Settings) -> list[str]:
    """Devices that leases may take: those of GPUS, else all whose memory is free or held by a run that will end."""
    if settings.gpus:
        return [str(index) for index in settings.gpus]
    devices = nvidia.look(run_command, None).devices
    locks = Devices([device.index for device in devices])
    return [
        device.index for device in devices if device.free >= _FREE_SHARE * device.total or locks.locked(device.index)
    ]
