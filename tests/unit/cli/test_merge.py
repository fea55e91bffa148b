"""`merge`: the artifacts of many machines in one directory that is a run in itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.base.errors import ConfigurationError
from runner.base.terms import ExitCode, Lane, Outcome
from runner.cli.gate import gate
from runner.cli.merge import merge
from runner.cli.record import recorded_cell
from runner.cli.replay import replay, replayed
from runner.ledger.reader import read_ledger
from runner.ledger.writer import LedgerWriter
from runner.report.write import write_files, write_plan
from runner.verdict.artifacts import load_plan, load_recorded, load_run
from runner.verdict.model import Verdict
from runner.verdict.models import keep_models
from tests.unit.agents.bench import MODEL

if TYPE_CHECKING:
    from conftest import Run


@pytest.fixture
def shards(run: Run, tmp_path: Path) -> list[Path]:
    """The recorded run as the two shards of a plan with two families, which are one by two names."""
    paths = []
    for index, family in ((1, "qwen3"), (2, "qwen3_again")):
        path = tmp_path / f"machine-{index}"
        shutil.copytree(run.path, path)
        plan = load_plan(path)
        rename = {"family": family}
        plan = plan.model_copy(
            update={
                "shard": f"{index}/2",
                "leases": [lease.model_copy(update=rename) for lease in plan.leases],
                "cells": [cell.model_copy(update=rename) for cell in plan.cells],
            }
        )
        write_plan(path, plan)
        if family != "qwen3":
            for below in ("cells", "leases", "models"):
                (path / below / "qwen3").rename(path / below / family)
            for ledger in path.rglob("ledger.jsonl"):
                _rename(ledger, family)
            for session in path.rglob("sessions/*.json"):
                session.write_bytes(session.read_bytes().replace(b'"qwen3/', f'"{family}/'.encode()))
            keep_models(MODEL, path, family)
        for file in ("environment.json", f"leases/{family}/compose.env"):
            (path / file).write_text("{}", encoding="utf-8")
        write_files(*load_run(path), path)
        paths.append(path)
    return paths


def _rename(path: Path, family: str) -> None:
    ledger = read_ledger(path)
    assert ledger.header is not None
    cell = ledger.header.cell.replace("qwen3", family)
    path.unlink()
    with LedgerWriter(path, run=ledger.header.run, cell=cell, writer=ledger.header.writer) as writer:
        for record in ledger.records:
            writer.write(record)


def test_merged_shards_are_a_run_that_gate_and_replay_judge_alike(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert merge(out, shards) is ExitCode.OK
    assert "PASS: 6 pass (2 on retry); exit code 0" in capsys.readouterr().out
    recorded = load_recorded(out)
    assert recorded is not None
    assert [shard.directory for shard in recorded.shards] == ["shards/1-of-2", "shards/2-of-2"]
    for cell in recorded.cells:
        run, shard = cell.reproduce.removeprefix("make repro RUN=").split(" CELL=")
        assert shard == cell.cell
        assert str(recorded_cell(Path(run), shard)[2].id) == cell.cell, "the shard's own run has the record"
        assert (out / cell.artifacts / "ledger.jsonl").is_file()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "2/2" in page
    assert "get_weather({" in page, "the turns of every shard are found"
    assert gate(out) is ExitCode.OK
    assert replay(out) is ExitCode.OK
    assert replayed(out)[1] == recorded


def test_a_missing_shard_is_incomplete_and_named_on_screen(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert merge(tmp_path / "out", shards[1:]) is ExitCode.INCOMPLETE
    assert "incomplete: shard 1/2 is missing" in capsys.readouterr().out
    assert gate(tmp_path / "out") is ExitCode.INCOMPLETE


def test_an_id_changed_in_one_shard_fails_the_replay_of_all(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merge(tmp_path / "out", shards)
    session = tmp_path / "out/shards/2-of-2/cells/qwen3_again" / Lane.V2_OPENAI / "baseline/sessions/0.json"
    text = session.read_text(encoding="utf-8")
    at = text.index('"input_ids"')
    digit = next(place for place in range(at, len(text)) if text[place].isdigit())
    session.write_text(text[:digit] + ("2" if text[digit] != "2" else "3") + text[digit + 1 :], encoding="utf-8")
    capsys.readouterr()
    assert replay(tmp_path / "out") is ExitCode.VERIFICATION_FAILED
    assert "qwen3_again/v2-openai/baseline: hard" in capsys.readouterr().out


def test_a_merged_verdict_that_is_gone_or_not_that_of_its_shards_is_told_by_a_replay(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    merge(out, shards)
    path = out / "verdict.json"
    verdict = Verdict.model_validate_json(path.read_bytes())
    verdict.cells[0].outcome = Outcome.SOFT
    path.write_text(verdict.model_dump_json(), encoding="utf-8")
    capsys.readouterr()
    assert replay(out) is ExitCode.INCOMPLETE
    assert "not as recorded: qwen3/v1-openai/baseline: recorded soft, now pass" in capsys.readouterr().out
    path.unlink()
    assert replay(out) is ExitCode.INCOMPLETE
    assert "incomplete: verdict.json is missing" in capsys.readouterr().out


def test_whatever_is_wrong_is_said_at_once_and_nothing_is_written(shards: list[Path], tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "file").touch()
    with pytest.raises(ConfigurationError) as caught:
        merge(used, [shards[0], shards[0], tmp_path / "nothing"])
    text = "\n".join(caught.value.problems)
    assert "is there already" in text
    assert "nothing is not the directory of a run" in text
    assert "shard 1/2 is there 2 times" in text
    assert [path.name for path in used.iterdir()] == ["file"]


def test_a_place_that_cannot_be_written_is_said_with_its_reason(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"OUT='.*file/out' cannot be written: .*Not a directory"):
        merge(tmp_path / "file" / "out", shards)


def test_a_run_that_cannot_be_copied_is_named_and_what_was_copied_is_gone(shards: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    (shards[1] / "dangling").symlink_to("nowhere")
    with pytest.raises(ConfigurationError, match=rf"{shards[1]} cannot be copied below {out}/shards: .*No such file"):
        merge(out, shards)
    assert list(out.iterdir()) == []
    (shards[1] / "dangling").unlink()
    assert merge(out, shards) is ExitCode.OK


def test_a_run_is_not_merged_into_itself_and_a_merged_run_not_again(shards: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="lies within"):
        merge(shards[0] / "out", shards)
    assert not (shards[0] / "out").exists()
    merge(tmp_path / "out", shards)
    with pytest.raises(ConfigurationError, match="is a merged run; give the shards themselves"):
        merge(tmp_path / "again", [tmp_path / "out"])
