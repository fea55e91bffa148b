"""Starting an engine where that is ours to do, and the one line to run where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground import daemon
from runner.ground.client import Docker
from runner.ground.daemon import Machine
from runner.ground.engine import find
from tests.unit.ground.conftest import MISSING_RESULT, SERVER, FakeRun, Log, context, failed, versions

DEAD = failed("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Debian, root, docker.io installed, no systemd, nothing running."""
    return Machine(
        root=True,
        linux=True,
        docker_host="",
        apt=True,
        dockerd=True,
        systemd=False,
        run_dir=tmp_path / "run",
        log=tmp_path / "dockerd.log",
        lock=tmp_path / "lock",
    )


class Starts:
    """Stands in for `spawn`: counts starts; the engine answers from start number `good` on."""

    def __init__(self, fake: FakeRun, good: int, says: str = "") -> None:
        self.fake, self.good, self.says = fake, good, says
        self.argv: list[tuple[str, ...]] = []

    def __call__(self, argv: tuple[str, ...], *, log: Path) -> Callable[[], bool]:
        self.argv.append(argv)
        with log.open("a") as sink:
            sink.write(f"{self.says}\n")
        if len(self.argv) >= self.good:
            self.fake.on("docker version", versions())
        return lambda: False


@pytest.fixture(autouse=True)
def _nothing_real(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "_POLL", 0.0)
    monkeypatch.setattr(daemon, "answering", lambda: "")
    monkeypatch.setattr(daemon.packages, "dockerd", lambda: "/usr/sbin/dockerd")

    def refuse_to_spawn(argv: tuple[str, ...], *, log: Path) -> Callable[[], bool]:
        raise AssertionError(f"a test wanted to start {argv}")

    monkeypatch.setattr(daemon, "spawn", refuse_to_spawn)


def test_an_engine_that_answers_is_used_and_named(fake: FakeRun, log: Log, machine: Machine) -> None:
    engine = daemon.ensure(log.append, machine=machine, run=fake)
    assert not engine.started
    assert log.texts == ["Docker engine 20.10.24 (API 1.41), context default, unix:///var/run/docker.sock"]
    assert not machine.lock.exists()


def test_root_starts_dockerd_and_says_so(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", DEAD)
    starts = Starts(fake, good=1)
    monkeypatch.setattr(daemon, "spawn", starts)
    engine = daemon.ensure(log.append, machine=replace(machine, arguments=("--debug",)), run=fake)
    assert engine.started
    assert starts.argv == [("/usr/sbin/dockerd", "--debug")]
    assert log.texts[0] == f"starting: dockerd, try 1, log {machine.log}"
    assert "started here" in log.texts[-1]


def test_one_that_dies_is_started_again_and_the_third_time_counts(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", DEAD)
    starts = Starts(fake, good=3)
    monkeypatch.setattr(daemon, "spawn", starts)
    assert daemon.ensure(log.append, machine=machine, run=fake).started
    assert len(starts.argv) == 3


def test_after_three_deaths_the_error_shows_the_end_of_its_log(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", DEAD)
    monkeypatch.setattr(daemon, "spawn", Starts(fake, good=9, says="failed to start: no space left on device"))
    with pytest.raises(InfrastructureError) as caught:
        daemon.ensure(log.append, machine=machine, run=fake)
    assert "tried 3 times" in str(caught.value)
    assert "no space left on device" in str(caught.value)
    assert str(machine.log) in caught.value.hint


def test_stale_pid_files_are_removed_before_a_start(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (machine.pid_file, machine.containerd_pid_file):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")  # init: alive, and neither dockerd nor containerd
    fake.on("docker version", DEAD)
    monkeypatch.setattr(daemon, "spawn", Starts(fake, good=1))
    daemon.ensure(log.append, machine=machine, run=fake)
    assert not machine.pid_file.exists()
    assert not machine.containerd_pid_file.exists()


def test_a_dockerd_that_is_starting_already_is_waited_for(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter([DEAD, DEAD, DEAD, DEAD])
    fake.on("docker version", lambda argv, env: next(replies, versions()))
    monkeypatch.setattr(daemon, "alive", lambda pid_file, name: True)
    assert daemon.ensure(log.append, machine=machine, run=fake).started  # and `spawn` was not called


def test_where_another_process_started_it_meanwhile_nothing_is_started(
    fake: FakeRun, log: Log, machine: Machine
) -> None:
    replies = iter([DEAD])
    fake.on("docker version", lambda argv, env: next(replies, versions()))
    assert not daemon.ensure(log.append, machine=machine, run=fake).started


def test_under_systemd_the_unit_is_started_and_no_process_of_ours(fake: FakeRun, log: Log, machine: Machine) -> None:
    fake.on("docker version", DEAD)

    def start(argv: tuple[str, ...], env: object) -> str:
        fake.on("docker version", versions())
        return ""

    fake.on("systemctl start docker", start)
    assert daemon.ensure(log.append, machine=replace(machine, systemd=True), run=fake).started


def test_without_dockerd_root_installs_it_first(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", DEAD)
    fake.on("apt-get", "")
    monkeypatch.setattr(daemon.packages, "dockerd", lambda: None)
    monkeypatch.setattr(daemon.packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(daemon, "spawn", Starts(fake, good=1))
    daemon.ensure(log.append, machine=replace(machine, dockerd=False), run=fake)
    words = [call[3] for call in fake.called("apt-get")]
    assert words == ["update", "install"]
    assert "docker.io" in fake.called("apt-get")[1]
    assert "installing Debian's docker.io" in log.texts[0]


def test_a_failing_installation_shows_apt_s_own_words(
    fake: FakeRun, log: Log, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", DEAD)
    fake.on("apt-get", failed("E: Could not get lock /var/lib/apt/lists/lock", 100))
    monkeypatch.setattr(daemon.packages, "dockerd", lambda: None)
    with pytest.raises(InfrastructureError, match="Could not get lock") as caught:
        daemon.ensure(log.append, machine=machine, run=fake)
    assert caught.value.hint.startswith("apt-get update && apt-get install -y docker.io")


NOT_ROOT = {"root": False}


@pytest.mark.parametrize(
    ("changes", "reply", "in_context", "message", "hint"),
    [
        pytest.param(
            {"docker_host": "tcp://build:2375"},
            DEAD,
            context(),
            "DOCKER_HOST=tcp://build:2375 is set and no engine answers there",
            "unset DOCKER_HOST",
            id="DOCKER_HOST is dead, even for root",
        ),
        pytest.param(
            NOT_ROOT,
            failed("Got permission denied while trying to connect to the Docker daemon socket"),
            context(),
            "this user may not talk to it",
            'usermod -aG docker "$USER"',
            id="no right to the socket",
        ),
        pytest.param({}, DEAD, context("desktop-linux"), "Docker Desktop", "start Docker Desktop", id="desktop"),
        pytest.param({"linux": False}, DEAD, context(), "Docker Desktop", "start Docker Desktop", id="not Linux"),
        pytest.param(
            {},
            DEAD,
            context("build", "ssh://build"),
            "context 'build' (ssh://build) does not answer",
            "docker context use default",
            id="another context is dead",
        ),
        pytest.param(
            {"apt": False, "dockerd": False}, DEAD, context(), "no Debian or Ubuntu", "docs.docker.com", id="no apt"
        ),
        pytest.param(
            {**NOT_ROOT, "dockerd": False}, DEAD, context(), "only root", "apt-get install -y docker.io", id="install"
        ),
        pytest.param(
            {**NOT_ROOT, "systemd": True}, DEAD, context(), "only root", "sudo systemctl start docker", id="unit"
        ),
        pytest.param(NOT_ROOT, DEAD, context(), "only root", "setsid dockerd", id="no systemd"),
    ],
)
def test_where_it_is_not_ours_to_start_one_message_has_the_line(
    fake: FakeRun,
    log: Log,
    machine: Machine,
    changes: dict[str, bool],
    reply: str,
    in_context: str,
    message: str,
    hint: str,
) -> None:
    fake.on("docker version", reply)
    fake.on("docker context inspect", in_context)
    with pytest.raises(InfrastructureError) as caught:
        daemon.ensure(log.append, machine=replace(machine, **changes), run=fake)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert not fake.called("apt-get")
    assert not machine.lock.exists()


def test_an_engine_without_the_docker_command_is_said_with_the_line(
    fake: FakeRun, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.on("docker version", MISSING_RESULT)
    monkeypatch.setattr(daemon, "answering", lambda: "27.1.0")
    client = Docker(run=fake)
    with pytest.raises(
        InfrastructureError, match=r"engine 27\.1\.0 answers, but the `docker` command is missing"
    ) as got:
        daemon.refuse(machine, client, find(client))
    assert "apt-get install" in got.value.hint


def test_an_engine_that_is_too_old_is_refused(fake: FakeRun, log: Log, machine: Machine) -> None:
    fake.on("docker version", versions({**SERVER, "ApiVersion": "1.38"}))
    with pytest.raises(InfrastructureError, match=r"speaks API 1\.38"):
        daemon.ensure(log.append, machine=machine, run=fake)
