"""What stands between a container and a GPU, link by link, so that the missing one can be named.

driver -> device -> container toolkit (or a CDI specification) -> an engine that knows it -> memory that is free. Only
looks: `nvidia-smi`, files and the engine's own words; `probe.device` is the proof.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runner.ground.check import Check, Status
from runner.ground.client import Info
from runner.ground.shell import Result, Run

_QUERY_TIMEOUT = 30.0
"""Seconds; nvidia-smi takes several where the persistence mode is off."""

CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
"""Makes the engine know an installed toolkit."""

DRIVER_FILE = Path("/proc/driver/nvidia/version")
CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))


@dataclass(frozen=True)
class Device:
    """One GPU. Memory in MiB."""

    index: str
    uuid: str
    name: str
    total: int
    free: int


@dataclass(frozen=True)
class Holder:
    """A process that holds memory (MiB) of a GPU."""

    uuid: str
    pid: str
    name: str
    used: int


@dataclass(frozen=True)
class Chain:
    """The links as found; an empty text or list is a missing link."""

    driver: str
    devices: tuple[Device, ...] = ()
    holders: tuple[Holder, ...] = ()
    said: str = ""
    """What nvidia-smi said when it did not work."""
    toolkit: str = ""
    specifications: tuple[str, ...] = ()
    runtime: bool = False
    cdi: bool = False


def look(run: Run, info: Info | None, driver_file: Path = DRIVER_FILE, cdi: Iterable[Path] = CDI_FOLDERS) -> Chain:
    """All links. `info`: the engine's words, None where none answers."""
    devices, holders, driver, said = _smi(run)
    if not driver and driver_file.is_file():
        driver = driver_file.read_text(errors="replace").splitlines()[0].strip()
    tools = ("nvidia-container-runtime-hook", "nvidia-container-runtime", "nvidia-ctk")
    return Chain(
        driver=driver,
        devices=devices,
        holders=holders,
        said=said,
        toolkit=next((tool for tool in tools if shutil.which(tool)), ""),
        specifications=tuple(str(path) for folder in cdi for path in sorted(folder.glob("*nvidia*"))),
        runtime=info is not None and "nvidia" in info.runtimes,
        cdi=info is not None and bool(info.cdi_dirs),
    )


def checks(chain: Chain, wanted: tuple[str, ...]) -> list[Check]:
    """One check per link; `wanted` are the devices (index or uuid) that a run names, none: any."""
    return [_driver(chain), _toolkit(chain), _memory(chain, wanted)]


def _driver(chain: Chain) -> Check:
    if chain.driver and chain.devices:
        names = ", ".join(f"{device.index}: {device.name}" for device in chain.devices)
        return Check("nvidia driver", Status.OK, f"{chain.driver}; {names}")
    found = f"driver {chain.driver} without a device: {chain.said}" if chain.driver else f"none: {chain.said}"
    return Check("nvidia driver", Status.FAIL, found, "sudo apt-get install -y nvidia-driver && sudo reboot")


def _toolkit(chain: Chain) -> Check:
    name = "nvidia toolkit"
    if chain.runtime:
        return Check(name, Status.OK, "the engine has a runtime `nvidia`")
    if chain.cdi and chain.specifications:
        return Check(name, Status.OK, f"CDI: {', '.join(chain.specifications)}")
    if chain.toolkit == "nvidia-container-runtime-hook":
        return Check(name, Status.OK, f"{chain.toolkit} on PATH, which the engine calls by itself")
    if chain.toolkit:
        return Check(name, Status.FAIL, f"{chain.toolkit} is installed, and the engine does not know it", CONFIGURE)
    if chain.specifications:
        line = "update Docker Engine (CDI needs 28.2, or `features.cdi` in daemon.json since 25)"
        return Check(name, Status.FAIL, "CDI specifications are here, and the engine does not read them", line)
    line = "sudo apt-get install -y nvidia-container-toolkit   # from NVIDIA's repository"
    return Check(name, Status.FAIL, "the NVIDIA container toolkit is not installed", line)


def _memory(chain: Chain, wanted: tuple[str, ...]) -> Check:
    name = "gpu memory"
    known = {device.index for device in chain.devices} | {device.uuid for device in chain.devices}
    missing = [gpu for gpu in wanted if gpu not in known]
    if missing:
        have = ", ".join(sorted(device.index for device in chain.devices)) or "none"
        return Check(name, Status.FAIL, f"GPUS names {', '.join(missing)}; this machine has {have}", "nvidia-smi -L")
    if not chain.devices:
        return Check(name, Status.FAIL, "no device to look at")
    chosen = [device for device in chain.devices if not wanted or device.index in wanted or device.uuid in wanted]
    texts = []
    for device in chosen:
        holders = [
            f"{holder.name} (pid {holder.pid}) {holder.used} MiB"
            for holder in chain.holders
            if holder.uuid == device.uuid
        ]
        held = f", held by {'; '.join(holders)}" if holders else ""
        texts.append(f"{device.index}: {device.free} of {device.total} MiB free{held}")
    busy = any(device.total and device.free < 0.9 * device.total for device in chosen)
    mend = "wait for them, end them, or name other devices: GPUS=..." if busy else ""
    return Check(name, Status.WARN if busy else Status.OK, " | ".join(texts), mend)


def _smi(run: Run) -> tuple[tuple[Device, ...], tuple[Holder, ...], str, str]:
    fields = "index,uuid,name,memory.total,memory.free,driver_version"
    result = _ask(run, f"--query-gpu={fields}")
    if not result.ok:
        return (), (), "", "nvidia-smi is not installed" if result.missing else result.tail(2)
    devices = []
    driver = ""
    for row in _rows(result.stdout, 6):
        devices.append(Device(row[0], row[1], row[2], _mib(row[3]), _mib(row[4])))
        driver = row[5]
    apps = _ask(run, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory")
    holders = [Holder(row[0], row[1], row[2], _mib(row[3])) for row in _rows(apps.stdout, 4)] if apps.ok else []
    return tuple(devices), tuple(holders), driver, ""


def _ask(run: Run, query: str) -> Result:
    return run(("nvidia-smi", query, "--format=csv,noheader,nounits"), timeout=_QUERY_TIMEOUT)


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    return [row for row in rows if len(row) == columns]


def _mib(text: str) -> int:
    """Memory as nvidia-smi prints it; 0 for `[N/A]`."""
    return int(text) if text.isdigit() else 0
