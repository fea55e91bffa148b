"""A recorded cell is read from three files, and what they do not say is named before anything starts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import docker
import pytest
from docker.errors import ImageNotFound

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.reading import load_settings
from runner.cli.record import Record, RecordedImage, plan_again
from runner.cli.repeat import present
from runner.cli.repro import _refuse_changes
from runner.cli.stacks import compose_variables
from runner.plan.build import prepare_plan
from runner.stack.variables import read_env_file, write_env_file

NOW = datetime(2026, 1, 2, tzinfo=UTC)
CELL = "qwen3/v2-anthropic/baseline"
REFERENCES = {"engine": "engine:1", "session": "session:1", "runner": "runner:1"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The artifacts that a repetition reads."""
    _, _, plan = prepare_plan({"seed": 5}, run_id="20260101-000000-abc123", now=NOW, versions={})
    (tmp_path / "plan.json").write_text(plan.model_dump_json())
    images = {kind: {"reference": name, "id": f"sha256:{kind}", "digests": []} for kind, name in REFERENCES.items()}
    (tmp_path / "environment.json").write_text(json.dumps({"tito_e2e": {"commit": "c0ffee"}, "images": images}))
    lease = tmp_path / "leases" / "qwen3"
    lease.mkdir(parents=True)
    variables = compose_variables(plan, plan.leases[0], REFERENCES, lock=Path("/locks/old"), keep=False)
    write_env_file(lease / "compose.env", {**variables, "TITO_CONTEXT_LENGTH": "4096"})
    return tmp_path


def test_the_new_plan_holds_the_cell_alone_as_it_was(run: Path) -> None:
    record = Record.read(run, CELL)
    plan = plan_again(record.plan, record.lease, record.cell, run_id="new", now=NOW, versions={"tito-e2e": "1"})
    assert [str(cell.id) for cell in plan.cells] == [CELL]
    assert plan.cells[0] == record.cell
    assert (plan.run_id, plan.seed, plan.leases) == ("new", 5, [record.lease])
    assert plan.versions == {"tito-e2e": "1", "repeats": f"20260101-000000-abc123 {CELL}"}


def test_recorded_settings_stay_and_images_go_by_id(run: Path) -> None:
    images = {kind: f"sha256:{kind}" for kind in REFERENCES}
    variables = Record.read(run, CELL).variables_again("new", images, {"TITO_LOCK": "/locks/new"})
    assert variables["TITO_CONTEXT_LENGTH"] == "4096"
    assert (variables["TITO_RUN_ID"], variables["TITO_LOCK"]) == ("new", "/locks/new")
    assert variables["TITO_SESSION_IMAGE"] == "sha256:session"
    assert not set(REFERENCES.values()) & set(variables.values())


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        pytest.param("qwen3", "not family/lane", id="no cell"),
        pytest.param("qwen3/v2-openai/other", "it has qwen3/v1-openai/baseline", id="not planned"),
    ],
)
def test_a_cell_that_is_not_in_the_plan_is_answered_with_those_that_are(run: Path, cell: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Record.read(run, cell)


@pytest.mark.parametrize("name", ["plan.json", "environment.json", "leases/qwen3/compose.env"])
def test_each_missing_file_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(ConfigurationError, match=Path(name).name):
        Record.read(run, CELL)


def test_an_image_without_an_id_is_named(run: Path) -> None:
    path = run / "environment.json"
    facts = json.loads(path.read_text())
    del facts["images"]["runner"]["id"]
    path.write_text(json.dumps(facts))
    with pytest.raises(ConfigurationError, match="which runner image was used"):
        Record.read(run, CELL)


def test_compose_variables_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    variables = {"TITO_A": "", "TITO_B": "a b=$HOME #c"}
    write_env_file(tmp_path / "x.env", variables)
    assert read_env_file(tmp_path / "x.env") == variables
    (tmp_path / "x.env").write_text("TITO_A=bare\n")
    with pytest.raises(ValueError, match="line 1"):
        read_env_file(tmp_path / "x.env")


class _Image:
    def __init__(self, name: str) -> None:
        self.id = name


class _Docker:
    """An engine that knows these names."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known
        self.images = self

    def get(self, name: str) -> _Image:
        if name not in self._known:
            raise ImageNotFound(name)
        return _Image(self._known[name])


def _engine(known: dict[str, str]) -> docker.DockerClient:
    return cast("docker.DockerClient", _Docker(known))


RECORDED = {kind: RecordedImage(reference=name, id=f"sha256:{kind}") for kind, name in REFERENCES.items()}
HERE = {f"sha256:{kind}": f"sha256:{kind}" for kind in REFERENCES}


def test_images_are_taken_by_id_whatever_their_names_mean_now() -> None:
    engine = _engine({**HERE, "engine:1": "sha256:newer"})
    assert present(engine, RECORDED, "") == {kind: f"sha256:{kind}" for kind in REFERENCES}


def test_a_digest_stands_for_an_id_of_another_engine() -> None:
    """An engine that keeps images in another store gives the same image another id; the digest stays."""
    known = {name: value for name, value in HERE.items() if name != "sha256:engine"}
    recorded = {**RECORDED, "engine": RecordedImage(reference="e:1", id="sha256:engine", digests=["e@sha256:1"])}
    assert present(_engine({**known, "e@sha256:1": "sha256:other"}), recorded, "")["engine"] == "sha256:other"
    with pytest.raises(InfrastructureError, match="docker pull e@sha256:1"):
        present(_engine(known), recorded, "")


def test_every_image_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(InfrastructureError) as caught:
        present(_engine({"sha256:engine": "sha256:engine", "runner:1": "sha256:newer"}), RECORDED, "c0ffee")
    text = str(caught.value)
    assert "session: session:1 (sha256:session) is not here" in text
    assert "the name now means sha256:newer" in text
    assert "commit c0ffee" in text


def test_what_the_record_fixes_cannot_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {"SEED": "3", "SAMPLES": "1", "ARTIFACTS": str(tmp_path), "CELL": CELL}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        _refuse_changes(load_settings())
    assert [problem.split()[0] for problem in caught.value.problems] == ["SAMPLES", "SEED"]
