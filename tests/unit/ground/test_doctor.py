"""The doctor: what it says of each thing, and that it changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground import base, compose, daemon, doctor, probe
from runner.ground.check import Check, Status, to_lines, worst
from runner.ground.site import Site
from runner.plan.model import EngineKind
from tests.unit.ground.conftest import MISSING_RESULT, SERVER, FakeRun, context, failed, image, versions

GIB = 1 << 30
DEAD = failed("Cannot connect to the Docker daemon. Is the docker daemon running?")
MACHINE = daemon.Machine(root=False, linux=True, docker_host="", apt=True, dockerd=True, systemd=True)


@pytest.fixture(autouse=True)
def _machine(fake: FakeRun, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which everything is well."""
    script = site.root / base.SCRIPT
    script.parent.mkdir(parents=True)
    script.write_text("echo made\n")
    info = {"DockerRootDir": str(tmp_path), "MemTotal": 16 * GIB, "Name": "box", "Runtimes": {"runc": {}}}
    fake.on("docker info", json.dumps(info))
    fake.on("docker image inspect", failed("No such image"))
    fake.on(f"docker image inspect {base.OFFICIAL}", image("sha256:1", [base.OFFICIAL]))
    for listing in ("docker ps", "docker network ls", "docker volume ls"):
        fake.on(listing, "")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "docker" else None)
    monkeypatch.setattr(doctor, "_available", lambda: 12 * GIB)
    monkeypatch.setattr(probe, "publish", lambda client, image: "")
    monkeypatch.setattr(daemon.Machine, "here", classmethod(lambda cls: MACHINE))
    monkeypatch.setattr(daemon, "answering", lambda: "")
    _free(monkeypatch, 50 * GIB)


def _free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    usage = type("Usage", (), {"free": size})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: usage)


def look(site: Site, fake: FakeRun) -> dict[str, Check]:
    return {check.name: check for check in doctor.diagnose(site, fake)}


CHANGES = ("docker pull", "docker build ", "docker tag", "docker rmi", "apt-get", "systemctl", "bash")


@pytest.mark.parametrize("reply", [versions(), DEAD], ids=["engine", "no engine"])
def test_it_changes_nothing(site: Site, fake: FakeRun, reply: str) -> None:
    fake.on("docker version", reply)
    before = sorted(site.root.parent.rglob("*"))
    look(site, fake)
    assert sorted(site.root.parent.rglob("*")) == before
    assert not [call for call in fake.calls if " ".join(call).startswith(CHANGES) or "pip" in call]


def test_a_machine_that_is_well_is_all_ok(site: Site, fake: FakeRun) -> None:
    checks = doctor.diagnose(site, fake)
    assert worst(checks) is Status.OK, to_lines(checks)
    assert [check.name for check in checks] == [
        "python",
        "docker command",
        "docker engine",
        "compose",
        "builder",
        "base image",
        "disk",
        "memory",
        "loopback ports",
        "leftovers",
    ]


def test_no_engine_that_we_may_not_start_is_a_failure_with_the_line(site: Site, fake: FakeRun) -> None:
    fake.on("docker version", DEAD)
    check = look(site, fake)["docker engine"]
    assert (check.status, check.mend) == (Status.FAIL, "sudo systemctl start docker")


def test_no_engine_that_a_run_sets_up_by_itself_is_a_warning(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon.Machine, "here", classmethod(lambda cls: replace(MACHINE, root=True)))
    fake.on("docker version", DEAD)
    checks = look(site, fake)
    assert checks["docker engine"].status is Status.WARN
    assert "make e2e" in checks["docker engine"].mend
    assert checks["disk"].found == "unknown without an engine"


def test_an_engine_without_the_command_names_the_client_s_line(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", MISSING_RESULT)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.setattr(daemon, "answering", lambda: "27.1.0")
    checks = look(site, fake)
    assert checks["docker command"].status is Status.FAIL
    assert "apt-get install" in checks["docker command"].mend
    assert "27.1.0 answers" in checks["docker engine"].found


def test_an_engine_that_is_too_old_fails(site: Site, fake: FakeRun) -> None:
    fake.on("docker version", versions({**SERVER, "ApiVersion": "1.30"}))
    assert look(site, fake)["docker engine"].status is Status.FAIL


@pytest.mark.parametrize(("installable", "status"), [(True, Status.WARN), (False, Status.FAIL)])
def test_an_old_compose_warns_where_it_can_be_mended_and_else_fails(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch, installable: bool, status: Status
) -> None:
    monkeypatch.setattr(compose, "installable", lambda: installable)
    fake.on("docker compose version --short", "2.5.0")
    check = look(site, fake)["compose"]
    assert check.status is status
    assert "2.5.0 is older than 2.20" in check.found


def test_no_base_image_warns(site: Site, fake: FakeRun) -> None:
    fake.on(f"docker image inspect {base.OFFICIAL}", failed("No such image"))
    checks = look(site, fake)
    assert checks["base image"].status is Status.WARN
    assert checks["loopback ports"].found == "not tried: no image is here to start one with"


def test_a_base_image_of_one_s_own_that_is_not_here_names_the_pull(site: Site, fake: FakeRun) -> None:
    check = look(replace(site, base_image="mine:1"), fake)["base image"]
    assert check.status is Status.WARN
    assert check.mend.startswith("docker pull mine:1")


def test_little_disk_fails_and_says_how_much(site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    _free(monkeypatch, 3 * GIB)
    check = look(site, fake)["disk"]
    assert check.status is Status.FAIL
    assert check.found.startswith("3.0 GiB free under ")
    assert check.mend


def test_little_memory_warns(site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_available", lambda: 2 * GIB)
    check = look(site, fake)["memory"]
    assert (check.status, check.found) == (Status.WARN, "2.0 GiB available, 6.0 GiB wanted")


def test_an_engine_elsewhere_is_judged_by_its_own_words(site: Site, fake: FakeRun) -> None:
    fake.on("docker context inspect", context("build", "ssh://build"))
    fake.on("docker info", json.dumps({"DockerRootDir": "/var/lib/docker", "MemTotal": 4 * GIB, "Name": "build"}))
    checks = look(site, fake)
    assert checks["disk"].status is Status.WARN
    assert "the engine's machine build" in checks["disk"].found
    assert checks["memory"].status is Status.FAIL
    assert "not tried" in checks["loopback ports"].found


def test_a_published_port_that_does_not_connect_fails(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "publish", lambda client, image: "127.0.0.1:4 did not answer within 15 s: refused")
    check = look(site, fake)["loopback ports"]
    assert (check.status, check.found) == (Status.FAIL, "127.0.0.1:4 did not answer within 15 s: refused")


def test_leftovers_are_counted_by_our_label(site: Site, fake: FakeRun) -> None:
    fake.on("docker ps", "a\nb\n")
    fake.on("docker volume ls", "v\n")
    check = look(site, fake)["leftovers"]
    assert check.status is Status.WARN
    assert check.found.startswith("2 containers, 1 volume ")
    assert check.mend.startswith("make sweep")
    assert all("label=io.github.tito-e2e.run" in call for call in fake.called("docker volume ls"))


@pytest.mark.parametrize("error", [OSError("broken disk"), InfrastructureError("broken\nmore")])
def test_a_check_that_breaks_does_not_hide_the_others(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", _raising(error))
    checks = look(site, fake)
    assert checks["disk"].status is Status.WARN
    assert checks["disk"].found == f"could not be looked at: {str(error).splitlines()[0]}"
    assert checks["leftovers"].status is Status.OK


def test_only_a_gpu_run_looks_at_gpus_and_then_at_every_link(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(site, fake)
    assert not fake.called("nvidia-smi")
    fake.on("nvidia-smi", failed("no driver"))
    monkeypatch.setattr(probe, "device", lambda client, image, gpus: "could not select device driver")
    checks = look(replace(site, engine=EngineKind.GPU), fake)
    gpu = [checks[name] for name in ("nvidia driver", "nvidia toolkit", "gpu memory", "gpu in a container")]
    assert {check.status for check in gpu} == {Status.FAIL}
    assert gpu[-1].found == "could not select device driver"


def test_a_python_that_is_too_old_fails_with_the_line(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PYTHON", (9, 0))
    check = look(site, fake)["python"]
    assert check.status is Status.FAIL
    assert check.found.endswith("; 9.0 is needed")
    assert check.mend.startswith("sudo apt-get install")


def test_a_command_that_a_run_brings_along_is_a_warning(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon.Machine, "here", classmethod(lambda cls: replace(MACHINE, root=True, dockerd=False)))
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    fake.on("docker version", MISSING_RESULT)
    check = look(site, fake)["docker command"]
    assert (check.status, check.found) == (Status.WARN, "not on PATH")
    assert "make e2e" in check.mend


def test_a_command_without_an_engine_still_has_a_version(site: Site, fake: FakeRun) -> None:
    fake.on("docker version", versions(None))
    check = look(site, fake)["docker command"]
    assert check.status is Status.OK
    assert check.found.endswith("(/usr/bin/docker)")
    assert check.found[0].isdigit()


def test_without_an_engine_nothing_is_guessed(site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.on("docker version", DEAD)
    monkeypatch.setattr(doctor, "_available", lambda: 0)
    checks = look(site, fake)
    for name in ("builder", "base image", "disk", "leftovers"):
        assert (checks[name].status, checks[name].found) == (Status.WARN, "unknown without an engine")
    assert (checks["memory"].status, checks["memory"].found) == (Status.WARN, "unknown")
    assert checks["loopback ports"].found == "not tried: no image is here to start one with"


@pytest.mark.parametrize(("installable", "status"), [(True, Status.WARN), (False, Status.FAIL)])
def test_no_compose_at_all_is_said_with_what_would_be_enough(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch, installable: bool, status: Status
) -> None:
    monkeypatch.setattr(compose, "installable", lambda: installable)
    fake.on("docker compose version --short", failed("docker: 'compose' is not a docker command."))
    check = look(site, fake)["compose"]
    assert check.status is status
    assert "no Compose v2 (at least 2.20)" in check.found
    assert check.mend == ("make e2e   # sets it up by itself" if installable else compose.INSTALL)


def test_the_builder_is_named_and_the_legacy_one_is_enough(site: Site, fake: FakeRun) -> None:
    fake.on("docker buildx version", "github.com/docker/buildx v0.19.0 abc\n")
    with_buildx = look(site, fake)["builder"]
    assert with_buildx.status is Status.OK
    assert "0.19.0" in with_buildx.found
    fake.on("docker buildx version", failed("docker: 'buildx' is not a docker command."))
    assert look(site, fake)["builder"] == Check("builder", Status.OK, "legacy builder (no buildx); slower and enough")


def test_an_engine_elsewhere_with_enough_memory_is_ok_and_its_ports_are_not_tried(site: Site, fake: FakeRun) -> None:
    fake.on("docker context inspect", context("build", "ssh://build"))
    fake.on("docker info", json.dumps({"DockerRootDir": "/var/lib/docker", "MemTotal": 16 * GIB, "Name": "build"}))
    checks = look(site, fake)
    assert checks["memory"] == Check("memory", Status.OK, "the engine's machine has 16.0 GiB, 6.0 GiB wanted")
    assert checks["loopback ports"].found == "not tried: the engine is on another machine (ssh://build)"


@pytest.mark.parametrize(
    ("gpus", "found"), [((), "a container gets all devices"), (("2", "5"), "a container gets 2, 5")]
)
def test_a_device_that_a_container_gets_is_ok(
    site: Site, fake: FakeRun, monkeypatch: pytest.MonkeyPatch, gpus: tuple[str, ...], found: str
) -> None:
    fake.on("nvidia-smi", failed("no driver"))
    monkeypatch.setattr(probe, "device", lambda client, image, wanted: "")
    check = look(replace(site, engine=EngineKind.GPU, gpus=gpus), fake)["gpu in a container"]
    assert (check.status, check.found) == (Status.OK, found)


def test_without_an_image_no_device_is_tried(site: Site, fake: FakeRun) -> None:
    fake.on("nvidia-smi", failed("no driver"))
    fake.on(f"docker image inspect {base.OFFICIAL}", failed("No such image"))
    checks = look(replace(site, engine=EngineKind.GPU), fake)
    assert checks["gpu in a container"].found == "not tried: no image is here to start one with"
    assert (checks["gpu memory"].status, checks["gpu memory"].found) == (Status.FAIL, "no device to look at")


def test_lines_are_plain_and_aligned_with_the_mending_line_below() -> None:
    checks = [Check("python", Status.OK, "3.11.7"), Check("docker engine", Status.FAIL, "none", "start it")]
    assert to_lines(checks) == [
        "ok    python         3.11.7",
        "fail  docker engine  none",
        "                     -> start it",
    ]
    assert worst(checks) is Status.FAIL
    assert worst([]) is Status.OK


def _raising(error: Exception) -> Callable[[object], object]:
    def look(folder: object) -> object:
        raise error

    return look
