"""`replay`: the same verdict from the evidence alone, and another one as soon as the evidence is not the same."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from runner.base.errors import ConfigurationError, IncompleteError
from runner.base.terms import ExitCode, Lane, Outcome
from runner.cli.gate import gate
from runner.cli.replay import replay, replayed
from runner.ledger.reader import read_ledger
from runner.ledger.records import Finding, SampleRecord, Severity
from runner.ledger.writer import LedgerWriter
from runner.report.write import write_files
from runner.verdict.artifacts import load_recorded, load_run
from runner.verdict.model import SampleState, Verdict
from tests.scripted_engine.faults import Fault, Kind
from tests.unit.agents.bench import MODEL

if TYPE_CHECKING:
    from conftest import Recorded, Run

ROOT = Path(__file__).parents[3]
TOKENS = "output_token_logprobs"


def prompt(records: list[Any], record: int) -> list[int]:
    ids: list[int] = records[record]["request"]["input_ids"]
    return ids


def sampled(records: list[Any], record: int) -> list[list[Any]]:
    tokens: list[list[Any]] = records[record]["response"]["choices"][0]["meta_info"][TOKENS]
    return tokens


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_an_untouched_run_gives_the_identical_verdict_and_nothing_is_written(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(run.path)
    assert replay(run.path) is ExitCode.OK
    _, verdict = replayed(run.path)
    assert verdict == Verdict.model_validate_json((run.path / "verdict.json").read_bytes())
    assert files(run.path) == before
    said = capsys.readouterr().out
    assert "replayed: 6 samples judged again; the verdict is the recorded one" in said
    assert "pass (on retry)" in said
    assert "retry 1 after length (finish reason length" in said


@pytest.mark.parametrize("lane", list(Lane))
def test_one_id_changed_in_a_prompt_fails_with_a_diff_that_names_turn_role_and_token(
    run: Run, lane: Lane, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []

    def change(records: list[Any]) -> None:
        ids = prompt(records, 2)
        place = len(prompt(records, 1)) + len(sampled(records, 1)) + 6  # in what turn 3 appended
        ids[place] += 1
        seen.append(place)

    run.edit(lane, 1, change)
    assert replay(run.path) is ExitCode.VERIFICATION_FAILED
    said = capsys.readouterr().out
    assert f"qwen3/{lane}/baseline: hard" in said
    assert "sample 1" in said
    assert f"first difference at token {seen[0]}: expected id" in said
    _, verdict = replayed(run.path)
    (cell,) = [cell for cell in verdict.cells if cell.failed]
    (finding,) = [f for f in cell.samples[1].findings if f.check == "prefix"]
    assert (finding.turn, finding.diff and finding.diff.token_index) == (4, seen[0])
    assert finding.role
    assert any(re.search(r"sample 1: recorded (clean|soft).*, now hard", said) for said in verdict.differences)
    assert verdict.problems == [], "a difference is no missing evidence"
    assert re.search(rf"^not as recorded: qwen3/{lane}/baseline sample 1: recorded (clean|soft)", said, re.MULTILINE)
    assert "incomplete: " not in said
    assert "judged again; see above for what is not as recorded" in said


def test_one_sampled_id_changed_is_found_as_an_assistant_token(run: Run) -> None:
    def change(records: list[Any]) -> None:
        sampled(records, 1)[4][1] += 1

    run.edit(Lane.V2_OPENAI, 0, change)
    _, verdict = replayed(run.path)
    assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
    (sample,) = [s for cell in verdict.cells for s in cell.samples if s.state is SampleState.HARD]
    (finding,) = [finding for finding in sample.findings if finding.check == "prefix"]
    assert finding.role == "assistant"
    assert finding.diff is not None
    assert finding.diff.expected_id is not None
    assert finding.diff.actual_id is not None
    assert finding.diff.expected_id == finding.diff.actual_id + 1


def test_no_id_can_be_changed_anywhere_without_failing(recorded: Recorded) -> None:
    run = recorded(samples=1)
    draw = random.Random(11)  # noqa: S311 - which ids, the same every time
    whole = run.session(Lane.V1_OPENAI).read_bytes()
    for _ in range(25):
        body = orjson.loads(whole)
        records = body["snapshot"]["records"]
        record = draw.randrange(len(records))
        if draw.random() < 0.5:
            ids = prompt(records, record)
            place = draw.randrange(len(ids))
            ids[place] += draw.choice((-1, 1)) if ids[place] else 1
        else:
            tokens = sampled(records, record)
            place = draw.randrange(len(tokens))
            tokens[place][1] += draw.choice((-1, 1)) if tokens[place][1] else 1
        run.session(Lane.V1_OPENAI).write_bytes(orjson.dumps(body))
        _, verdict = replayed(run.path)
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED, (record, place)


def test_a_recorded_failure_stays_the_same_failure(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    run = recorded(Fault(Kind.USAGE, turn=3, session=1))
    assert replay(run.path) is ExitCode.VERIFICATION_FAILED
    assert "the verdict is the recorded one" in capsys.readouterr().out


def test_a_sample_that_broke_off_keeps_its_record(recorded: Recorded) -> None:
    run = recorded(Fault(Kind.STATUS, session=1, turn=2, value=418))
    _, verdict = replayed(run.path)
    assert verdict == load_recorded(run.path)
    assert verdict.cells[0].outcome is Outcome.VERIFIER_ERROR


def test_evidence_that_did_not_travel_is_incomplete_and_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.session(Lane.V2_OPENAI, 1).unlink()
    assert gate(run.path) is ExitCode.OK, "the gate does not need it"
    assert replay(run.path) is ExitCode.INCOMPLETE
    assert "v2-openai/baseline/sessions/1.json" in capsys.readouterr().out


def test_evidence_of_another_sample_or_run_is_not_taken(run: Run) -> None:
    one, other = run.session(Lane.V1_OPENAI, 0), run.session(Lane.V1_OPENAI, 1)
    other.write_bytes(one.read_bytes())
    foreign = orjson.loads(run.session(Lane.V2_OPENAI).read_bytes()) | {"run": "20250101-000000-000000"}
    run.session(Lane.V2_OPENAI).write_bytes(orjson.dumps(foreign))
    _, verdict = replayed(run.path)
    assert verdict.exit_code is ExitCode.INCOMPLETE
    assert "is of sample 0, expected 1" in verdict.cells[0].reasons[0].message
    assert "is of run '20250101-000000-000000'" in verdict.cells[1].reasons[0].message


def test_a_snapshot_that_is_none_fails_the_sample(run: Run) -> None:
    body = orjson.loads(run.session(Lane.V1_OPENAI).read_bytes())
    del body["snapshot"]["metadata"]
    run.session(Lane.V1_OPENAI).write_bytes(orjson.dumps(body))
    _, verdict = replayed(run.path)
    assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
    assert "[records] VerificationError" in verdict.cells[0].samples[0].message


def test_a_tokenizer_that_is_missing_or_changed_is_incomplete_and_another_may_be_named(
    run: Run, tmp_path: Path
) -> None:
    tokenizer = run.path / "models" / "qwen3" / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    _, changed = replayed(run.path)
    assert changed.exit_code is ExitCode.INCOMPLETE
    assert "models/qwen3/tokenizer.json is not the file that the run was measured with" in str(changed.cells[0].reasons)
    for file in tokenizer.parent.iterdir():
        file.unlink()
    _, missing = replayed(run.path)
    assert missing.exit_code is ExitCode.INCOMPLETE
    assert "name a directory that has qwen3/tokenizer.json with --models" in str(missing.cells[0].reasons)
    assert replay(run.path, models=MODEL.parent) is ExitCode.OK
    assert replay(run.path, models=tmp_path / "nowhere") is ExitCode.INCOMPLETE


def test_a_verdict_that_the_evidence_does_not_support_is_a_problem_of_the_run(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.path / "verdict.json"
    verdict = Verdict.model_validate_json(path.read_bytes())
    verdict.cells[0].outcome = Outcome.SOFT
    path.write_text(verdict.model_dump_json(), encoding="utf-8")
    assert replay(run.path) is ExitCode.INCOMPLETE
    assert "not as recorded: qwen3/v1-openai/baseline: recorded soft, now pass" in capsys.readouterr().out
    path.write_text("{", encoding="utf-8")
    with pytest.raises(IncompleteError, match="is not a verdict"):
        replay(run.path)


def test_a_run_that_lost_its_verdict_lacks_evidence_and_is_still_held_against_its_ledgers(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    (run.path / "verdict.json").unlink()
    assert gate(run.path) is ExitCode.OK, "the gate does not need it"
    capsys.readouterr()
    assert replay(run.path) is ExitCode.INCOMPLETE
    said = capsys.readouterr().out
    assert "incomplete: verdict.json is missing: there is no recorded verdict to compare with" in said
    assert "6 samples judged again; there is no recorded verdict to compare with" in said
    assert "the verdict is the recorded one" not in said
    run.edit(Lane.V1_OPENAI, 1, lambda records: prompt(records, 1).append(7))
    assert replay(run.path) is ExitCode.VERIFICATION_FAILED
    assert "not as recorded: qwen3/v1-openai/baseline sample 1: recorded clean, now hard" in capsys.readouterr().out


def test_a_kind_of_mismatch_is_told_once(run: Run) -> None:
    run.edit(Lane.V1_OPENAI, 1, lambda records: sampled(records, 1)[4].__setitem__(1, sampled(records, 1)[4][1] + 1))
    _, verdict = replayed(run.path)
    told = re.search(r"\(types: (.*?)\)", verdict.cells[0].reasons[0].message)
    assert told is not None
    assert told[1].split(", ") == ["counts:client_ids", "prefix:parser", "text:reasoning"]


def test_findings_of_the_engine_stand_in_a_replay(run: Run) -> None:
    path = run.path / "cells/qwen3/v1-openai/baseline/ledger.jsonl"
    ledger = read_ledger(path)
    path.unlink()
    scored = Finding(check="scoring", type="logprobs", severity=Severity.HARD, message="they differ", turn=2)
    with LedgerWriter(path, run="20260101-000000-abc123", cell="qwen3/v1-openai/baseline", writer="runner") as writer:
        for record in ledger.records:
            if isinstance(record, SampleRecord) and record.sample_index == 0:
                more = {
                    "findings": [*record.findings, scored],
                    "hard_mismatch_count": 1,
                    "hard_mismatch_types": ["scoring:logprobs"],
                }
                writer.write(record.model_copy(update=more))
            else:
                writer.write(record)
    write_files(*load_run(run.path), run.path)
    _, verdict = replayed(run.path)
    assert verdict == load_recorded(run.path)
    assert verdict.cells[0].outcome is Outcome.HARD


def test_the_reports_of_a_replay_go_where_they_were_asked_for(run: Run, tmp_path: Path) -> None:
    before = files(run.path)
    assert replay(run.path, out=tmp_path / "out") is ExitCode.OK
    assert files(run.path) == before
    assert {"verdict.json", "report.html", "junit.xml", "summary.md", "plan.json"} == set(files(tmp_path / "out"))
    assert "get_weather({" in (tmp_path / "out/report.html").read_text(encoding="utf-8"), "with the turns"


def test_a_plan_without_the_lease_of_a_cell_is_missing_evidence(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    plan = orjson.loads((run.path / "plan.json").read_bytes())
    plan["leases"] = []
    (run.path / "plan.json").write_bytes(orjson.dumps(plan))
    assert gate(run.path) is ExitCode.INCOMPLETE
    assert replay(run.path) is ExitCode.INCOMPLETE
    assert "plan.json has no lease of family qwen3" in capsys.readouterr().out


@pytest.mark.parametrize("field", ["family", "scenario"])
def test_a_plan_with_a_path_for_a_name_is_no_plan(run: Run, field: str) -> None:
    plan = orjson.loads((run.path / "plan.json").read_bytes())
    plan["cells"][0][field] = "../x"
    (run.path / "plan.json").write_bytes(orjson.dumps(plan))
    for command in (gate, replay):
        with pytest.raises(ConfigurationError, match=rf"is not a plan: cells.0: {field} '\.\./x' is not a name"):
            command(run.path)


def test_a_directory_without_a_plan_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not the directory of a run"):
        replay(tmp_path)


@pytest.mark.parametrize("command", ["gate", "replay"])
def test_the_command_line_works_where_there_is_no_docker_at_all(run: Run, command: str) -> None:
    program = (
        "import socket, sys\n"
        "for name in ('docker', 'testcontainers'): sys.modules[name] = None\n"
        "def refuse(*a, **k): raise OSError('no network here')\n"
        "socket.socket.connect = refuse\n"
        "from runner.cli.app import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, command, str(run.path)],
        cwd=ROOT,
        env={"PATH": "", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 pass (1 on retry); exit code 0" in done.stdout
    assert done.stderr == ""
    broken = run.session(Lane.V1_OPENAI)
    broken.write_bytes(broken.read_bytes()[:-10])
    again = subprocess.run(
        [sys.executable, "-m", "runner", command, str(run.path)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert again.returncode == (4 if command == "replay" else 0)
