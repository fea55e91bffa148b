"""Every link between a container and a GPU, and that the missing one is the one that is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.ground import nvidia
from runner.ground.check import Check, Status
from runner.ground.client import Info
from runner.ground.nvidia import Chain, Device, Holder
from runner.ground.shell import MISSING, Result
from tests.unit.ground.conftest import FakeRun, failed

A = Device("0", "GPU-a", "NVIDIA H200", 143771, 143000)
B = Device("1", "GPU-b", "NVIDIA H200", 143771, 2000)
GOOD = Chain(driver="570.1", devices=(A, B), runtime=True)


def by_name(chain: Chain, wanted: tuple[str, ...] = ()) -> dict[str, Check]:
    return {check.name: check for check in nvidia.checks(chain, wanted)}


@pytest.fixture
def smi(fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    """Two devices, one held."""
    monkeypatch.setattr(nvidia.shutil, "which", lambda name: None)
    gpus = "0, GPU-a, NVIDIA H200, 143771, 143000, 570.1\n1, GPU-b, NVIDIA H200, 143771, 2000, 570.1\n"

    def answer(argv: tuple[str, ...], env: object) -> str:
        return gpus if argv[1].startswith("--query-gpu") else "GPU-b, 4711, python3, 141000\n"

    fake.on("nvidia-smi", answer)
    return fake


def test_devices_driver_and_holders_are_read(smi: FakeRun) -> None:
    chain = nvidia.look(smi, None, Path("/nowhere"), ())
    assert chain.devices == (A, B)
    assert chain.driver == "570.1"
    assert chain.holders == (Holder("GPU-b", "4711", "python3", 141000),)
    assert not chain.runtime


def test_memory_that_the_driver_does_not_tell_is_no_error(smi: FakeRun) -> None:
    smi.on("nvidia-smi", "0, GPU-a, GB10, [N/A], [N/A], 580.1\n")
    chain = nvidia.look(smi, None, Path("/nowhere"), ())
    assert (chain.devices[0].total, chain.devices[0].free) == (0, 0)
    assert by_name(chain)["gpu memory"].status is Status.OK


def test_the_engine_s_runtime_and_cdi_are_its_own_words(smi: FakeRun, tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text("cdiVersion")
    info = Info.model_validate({"Runtimes": {"nvidia": {}, "runc": {}}, "CDISpecDirs": ["/etc/cdi"]})
    chain = nvidia.look(smi, info, Path("/nowhere"), (tmp_path,))
    assert chain.runtime
    assert chain.cdi
    assert chain.specifications == (str(tmp_path / "nvidia.yaml"),)


def test_all_links_there_is_all_ok() -> None:
    checks = by_name(GOOD, ("0",))
    assert {check.status for check in checks.values()} == {Status.OK}
    assert "570.1; 0: NVIDIA H200, 1: NVIDIA H200" in checks["nvidia driver"].found


@pytest.mark.parametrize(
    ("reply", "driver_file", "found"),
    [
        (Result(("nvidia-smi",), MISSING), "", "none: nvidia-smi is not installed"),
        (failed("couldn't communicate with the NVIDIA driver"), "", "none: couldn't communicate"),
        (failed("No devices were found"), "NVRM version: 570.1\n", "NVRM version: 570.1 without a device: No devices"),
    ],
    ids=["nothing", "no driver", "driver without device"],
)
def test_a_missing_driver_or_device_is_told_apart(
    smi: FakeRun, tmp_path: Path, reply: Result, driver_file: str, found: str
) -> None:
    smi.on("nvidia-smi", reply)
    path = tmp_path / "version"
    if driver_file:
        path.write_text(driver_file)
    check = by_name(nvidia.look(smi, None, path, ()))["nvidia driver"]
    assert check.status is Status.FAIL
    assert found in check.found
    assert check.mend


@pytest.mark.parametrize(
    ("change", "status", "found", "mend"),
    [
        ({}, Status.FAIL, "not installed", "nvidia-container-toolkit"),
        ({"toolkit": "nvidia-ctk"}, Status.FAIL, "the engine does not know it", nvidia.CONFIGURE),
        ({"toolkit": "nvidia-container-runtime-hook"}, Status.OK, "calls by itself", ""),
        ({"specifications": ("/etc/cdi/nvidia.yaml",)}, Status.FAIL, "does not read them", "features.cdi"),
        ({"specifications": ("/etc/cdi/nvidia.yaml",), "cdi": True}, Status.OK, "CDI: /etc/cdi/nvidia.yaml", ""),
        ({"runtime": True}, Status.OK, "runtime `nvidia`", ""),
    ],
    ids=["nothing", "not configured", "hook", "CDI not read", "CDI", "runtime"],
)
def test_the_toolkit_s_missing_link_is_named(change: dict[str, object], status: Status, found: str, mend: str) -> None:
    check = by_name(replace(GOOD, **{"runtime": False, **change}))["nvidia toolkit"]  # type: ignore[arg-type]
    assert check.status is status
    assert found in check.found
    assert mend in check.mend


def test_who_holds_a_device_is_named_and_only_a_wanted_one_warns() -> None:
    chain = replace(GOOD, holders=(Holder("GPU-b", "4711", "python3", 141000),))
    busy = by_name(chain)["gpu memory"]
    assert busy.status is Status.WARN
    assert "1: 2000 of 143771 MiB free, held by python3 (pid 4711) 141000 MiB" in busy.found
    assert by_name(chain, ("GPU-a",))["gpu memory"].status is Status.OK


def test_a_wanted_device_that_is_not_there_is_a_failure() -> None:
    check = by_name(GOOD, ("0", "7"))["gpu memory"]
    assert check.status is Status.FAIL
    assert check.found == "GPUS names 7; this machine has 0, 1"
