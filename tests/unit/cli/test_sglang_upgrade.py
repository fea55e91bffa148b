"""The command `sglang-upgrade`: in which order it works, what ends it early, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.reading import load_settings
from runner.base.terms import ExitCode, Lane, Outcome
from runner.cli import upgrade as command
from runner.cli.gates import Bench
from runner.contract.conversion import recording
from runner.contract.conversion.recording import Outcome as Converted
from runner.contract.conversion.recording import Recording, Side
from runner.contract.result import ContractOutcome, ContractResult, Counts, Pin, Test
from runner.ground import candidate, images
from runner.ground.base import Base, Origin
from runner.ground.candidate import Candidate, Declared
from runner.ground.client import Docker
from runner.ground.compose import Compose
from runner.ground.engine import Engine
from runner.ground.prepare import Ground
from runner.ground.shell import Result
from runner.ground.site import Site
from runner.verdict.model import CellVerdict, Verdict

BASE = Base("base:1", Origin.PRESENT, "base:1")
ENGINE = Engine("20.10.24", "1.41", "28.2.2", "default", "unix:///var/run/docker.sock")


class Machine:
    """Stands for everything that the command starts; `done` says what, in order."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.done: list[str] = []
        self.log = ""
        self.broken = False
        self.choice = "required"
        self.outcome = Outcome.PASS
        self.code = ExitCode.OK

    def make(self, version: str, site: Site, of: Declared) -> Candidate:
        self.done.append("lock")
        folder = self.root / "candidate" / candidate.RECIPE.context
        folder.mkdir(parents=True)
        for name in candidate.REQUIREMENTS:
            (folder / name).write_text(name)
        return Candidate(version, Site(self.root / "candidate", self.root), of, {"sglang": version})

    def ensure(self, names: Sequence[str], site: Site, *_: Any, **more: Any) -> dict[str, str]:
        self.done.append("build")
        if self.log:
            log = site.logs / "build-engine-candidate-new.log"
            log.parent.mkdir(parents=True)
            log.write_text(self.log)
            raise InfrastructureError("the image engine-candidate could not be built")
        return {}

    def bench(self, settings: Any, names: Sequence[str], suffix: str) -> Bench:
        self.done.append("ground")
        directory = self.root / "artifacts" / "r-upgrade"
        directory.mkdir(parents=True)
        compose = Compose("2.40.3", True)
        ground = Ground(ENGINE, compose, BASE, {"engine-cpu": "e:old", "session-server": "s:1"}, {})
        return Bench(settings, Site(self.root, self.root), ground, "r", directory, lambda event: None)

    def kit(self, on: Bench, engine: str, sglang: str, directory: Path, *, timeout: float) -> ContractResult:
        self.done.append(f"kit {engine}")
        return ContractResult(
            contract="kit",
            run="r",
            outcome=ContractOutcome.PASS,
            pin=Pin(expected=sglang),
            counts=Counts(collected=1, passed=1),
            tests=(Test(name="a", file="kit", outcome="passed"),),
        )

    def record(self, on: Bench, side: Side, image: str, path: Path) -> Recording:
        self.done.append(f"conversion {image}")
        if self.broken:
            raise InfrastructureError("the container was killed")
        choice = self.choice if image == "c:new" else "required"
        cases = {"choice-any": Converted(made={"tool_choice": choice})}
        made = Recording(side=side, image=image, version="0", requests=cases, replies={})
        path.parent.mkdir(parents=True, exist_ok=True)
        recording.write(made, path)
        return made

    def cells(self, variables: Sequence[str]) -> ExitCode:
        values = dict(variable.split("=", 1) for variable in variables)
        self.done.append(f"cells {values['ENGINE_IMAGE']}")
        directory = Path(values["ARTIFACTS"]) / "run"
        directory.mkdir(parents=True)
        outcome = self.outcome if values["ENGINE_IMAGE"] == "c:new" else Outcome.PASS
        cell = CellVerdict(
            cell="qwen3/v1-openai/baseline",
            family="qwen3",
            lane=Lane.V1_OPENAI,
            scenario="baseline",
            outcome=outcome,
            failed=outcome is not Outcome.PASS,
        )
        (directory / "verdict.json").write_text(Verdict(run_id="r", exit_code=0, cells=[cell]).model_dump_json())
        return self.code


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which everything works and both versions are alike."""
    made = Machine(tmp_path)
    passing = made.kit
    monkeypatch.setattr(candidate, "declared", lambda version: Declared(version, {}))
    monkeypatch.setattr(candidate, "make", made.make)
    monkeypatch.setattr(images, "tags", lambda *_: {"engine-candidate": "c:new"})
    monkeypatch.setattr(images, "ensure", made.ensure)
    monkeypatch.setattr(Docker, "image_ids", lambda *_: [])
    monkeypatch.setattr(Docker, "untag", lambda _, layer: made.done.append(f"remove {layer}"))
    monkeypatch.setattr(command, "run", lambda argv, **_: Result(tuple(argv), 0, "8 modules import\n"))
    monkeypatch.setattr(command, "bench", made.bench)
    monkeypatch.setattr(command, "run_kit", passing)
    monkeypatch.setattr(command, "record_side", made.record)
    monkeypatch.setattr(
        command, "_judge", lambda on, ours, theirs, version: passing(on, "ours", version, tmp_path, timeout=1)
    )
    monkeypatch.setattr(command, "e2e", made.cells)
    return made


def result(machine: Machine) -> dict[str, Any]:
    """upgrade.json."""
    loaded: dict[str, Any] = json.loads((machine.root / "artifacts/r-upgrade/upgrade.json").read_text())
    return loaded


def test_both_versions_go_through_every_check_and_the_pins_stay(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.upgrade("0.5.24", [], timeout=60) is ExitCode.OK
    assert machine.done[:3] == ["lock", "ground", "build"]
    for check in ("kit", "conversion", "cells"):
        assert [one for one in machine.done if one in (f"{check} e:old", f"{check} c:new")] == [
            f"{check} e:old",
            f"{check} c:new",
        ]
    assert (result(machine)["problems"], result(machine)["new"]) == ([], {"version": "0.5.24", "image": "c:new"})
    said = capsys.readouterr().out
    assert "against it: nothing" in said
    assert "to move the pins: cp " in said
    assert (machine.root / "artifacts/r-upgrade/requirements.lock").read_text() == "requirements.lock"


def test_a_version_that_does_not_exist_ends_it_before_anything_is_made(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(version: str) -> Declared:
        raise ConfigurationError([f"VERSION={version}: the package index has no SGLang {version}"])

    monkeypatch.setattr(candidate, "declared", absent)
    with pytest.raises(ConfigurationError, match=r"no SGLang 9\.9\.9"):
        command.upgrade("9.9.9", [], timeout=60)
    assert machine.done == []


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ENGINE", "gpu", "ENGINE is 'gpu'"),
        ("ENGINE_IMAGE", "x:1", "chooses both engine images itself"),
    ],
)
def test_settings_that_make_no_sense_with_it_are_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said):
        command.upgrade("0.5.24", [], timeout=60)
    assert machine.done == []


STUBS = """Step 19/26 : RUN python -m serve check
 ---> 0123456789ab
 ---> Running in fe0123456789
stub check: the stub 'triton' is too small for SGLang 0.5.24: stub of triton has no 'Config'
  asked for by /opt/venv/lib/python3.11/site-packages/sglang/x.py:3 while importing sglang.launch_server
  add what is missing to images/engine-cpu/stubs/triton
The command '/bin/sh -c python -m serve check' returned a non-zero code: 2
"""


def test_stubs_that_are_not_enough_are_named_and_end_the_comparison(machine: Machine) -> None:
    machine.log = STUBS
    assert command.upgrade("0.5.24", [], timeout=60) is ExitCode.VERIFICATION_FAILED
    (problem,) = result(machine)["problems"]
    assert "stub of triton has no 'Config'; asked for by /opt/venv" in problem
    assert [row["new"] for row in result(machine)["rows"][-4:]] == ["not run"] * 4
    assert machine.done == ["lock", "ground", "build", "remove 0123456789ab"]
    assert (machine.root / "artifacts/r-upgrade/build.log").read_text() == STUBS


def test_a_build_that_fails_for_another_reason_is_an_error_of_its_own(machine: Machine) -> None:
    machine.log = "Step 7/26 : RUN uv pip install\nno space left on device\n"
    with pytest.raises(InfrastructureError, match="could not be built"):
        command.upgrade("0.5.24", [], timeout=60)


def test_a_changed_conversion_and_a_failing_cell_are_named_and_no_pin_is_offered(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.choice, machine.outcome = "auto", Outcome.HARD
    assert command.upgrade("0.5.24", [], timeout=60) is ExitCode.VERIFICATION_FAILED
    said = capsys.readouterr().out
    assert 'conversion tool_choice: "required" -> "auto", in 1 case: request choice-any' in said
    assert "cell qwen3/v1-openai/baseline: pass -> hard" in said
    assert "to move the pins" not in said


def test_a_check_that_breaks_underneath_leaves_the_others_and_ends_with_3(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.broken = True
    assert command.upgrade("0.5.24", [], timeout=60) is ExitCode.INFRASTRUCTURE
    assert "cells c:new" in machine.done
    said = capsys.readouterr().out
    assert "SGLang's conversion: the container was killed" in said
    assert "to move the pins" not in said


def test_an_interruption_writes_what_there_is_and_ends_with_130(machine: Machine) -> None:
    machine.code = ExitCode.INTERRUPTED
    assert command.upgrade("0.5.24", [], timeout=60) is ExitCode.INTERRUPTED
    assert result(machine)["broken"] == ["cells: the run on e:old ended with 130"]
    assert load_settings().engine_image is None


def test_what_was_found_is_kept_when_something_unforeseen_ends_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(variables: Sequence[str]) -> ExitCode:
        raise RuntimeError("a bug")

    monkeypatch.setattr(command, "e2e", broken)
    with pytest.raises(RuntimeError):
        command.upgrade("0.5.24", [], timeout=60)
    assert result(machine)["broken"] == ["all that comes after: RuntimeError a bug"]
    assert result(machine)["rows"][3]["new"] == "1 of 1 passed"
