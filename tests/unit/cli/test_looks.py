"""What `doctor`, `sweep` and `down` print, and how they end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.base.errors import InfrastructureError
from runner.base.settings import EngineKind
from runner.base.terms import ExitCode
from runner.cli import doctor, sweep, up
from runner.ground.check import Check, Status
from runner.ground.engine import Found
from runner.ground.site import Site
from runner.stack.sweep import Leftover, Swept

GONE = Leftover("20260101-000000-aaaaaa", containers=["c1", "c2"], networks=["n"], volumes=["v"])
BUSY = Leftover("20260101-000000-bbbbbb", containers=["c3"])
KEPT = Leftover("20260101-000000-cccccc", keep=True, containers=["c4"])


@pytest.fixture(autouse=True)
def no_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr(sweep, "connect", lambda: client)
    monkeypatch.setattr(up, "connect", lambda: client)


@pytest.mark.parametrize(
    ("status", "code"),
    [(Status.OK, ExitCode.OK), (Status.WARN, ExitCode.OK), (Status.FAIL, ExitCode.INFRASTRUCTURE)],
)
def test_the_doctor_prints_every_check_and_fails_only_for_what_is_in_the_way(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: Status, code: ExitCode
) -> None:
    asked: list[Site] = []

    def diagnose(site: Site) -> list[Check]:
        asked.append(site)
        return [Check("python", Status.OK, "3.11.7"), Check("disk", status, "1.0 GiB free", "docker system df")]

    monkeypatch.setenv("ENGINE", "cpu")
    monkeypatch.setenv("GPUS", "")
    monkeypatch.setattr(doctor, "diagnose", diagnose)
    assert doctor.doctor(["ENGINE=gpu", "GPUS=0,1"]) is code
    assert (asked[0].engine, asked[0].gpus) == (EngineKind.GPU, ("0", "1"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ok    python  3.11.7"
    assert lines[1].split() == [status, "disk", "1.0", "GiB", "free"]
    assert lines[2].strip() == "-> docker system df"


def test_a_sweep_says_what_went_and_what_stayed_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def swept(client: object, *, everything: bool) -> Swept:
        asked.append(everything)
        return Swept([GONE], [(BUSY, "its process is running")])

    monkeypatch.setattr(sweep, "sweep_runs", swept)
    assert sweep.sweep(everything=True) is ExitCode.OK
    assert asked == [True]
    assert capsys.readouterr().out.splitlines() == [
        "removed 20260101-000000-aaaaaa: 2 containers, 1 network, 1 volume",
        "left    20260101-000000-bbbbbb: 1 container, 0 networks, 0 volumes - its process is running",
    ]


def test_a_sweep_that_finds_nothing_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sweep, "sweep_runs", lambda client, everything: Swept([], []))
    assert sweep.sweep(everything=False) is ExitCode.OK
    assert capsys.readouterr().out == "nothing of ours is left on this Docker engine\n"


def test_a_sweep_without_an_engine_points_to_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(sweep, "find", lambda client: Found(None, "Cannot connect"))
    with pytest.raises(InfrastructureError, match="no Docker engine answers: Cannot connect") as caught:
        sweep.sweep(everything=False)
    assert caught.value.hint == "make doctor"


def test_down_removes_kept_environments_only_and_names_what_could_not_be_removed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found: list[Leftover] = [BUSY, KEPT]
    problems: list[str] = []
    monkeypatch.setattr(up, "find", lambda client: found)
    monkeypatch.setattr(up, "remove", lambda client, run: problems)
    assert up.down() is ExitCode.OK
    assert capsys.readouterr().out == "removed 20260101-000000-cccccc: 1 container, 0 networks, 0 volumes\n"
    problems.append("container c4: device busy")
    up.down()
    assert capsys.readouterr().out == "20260101-000000-cccccc: container c4: device busy\n"
    found.pop()
    up.down()
    assert capsys.readouterr().out == "no kept environment is running\n"
