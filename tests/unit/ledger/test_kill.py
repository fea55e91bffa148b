"""SIGKILL at any byte: what was written stays readable, and what is missing is never mistaken for an end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

from runner.ledger.reader import UNFINISHED, ProblemKind, parse_ledger, read_ledger
from runner.ledger.records import NoteRecord
from runner.ledger.timeline import in_order
from runner.ledger.writer import LedgerWriter

ROOT = Path(__file__).parents[3]
KILLS = 40

# One interpreter forks all writers, so that a kill costs milliseconds. Each child writes records of many sizes for
# ever; it is killed when its file has grown past a byte that was drawn beforehand, which falls anywhere in a record.
KILLER = """
import os, pathlib, signal, sys
from runner.ledger.records import NoteRecord
from runner.ledger.writer import LedgerWriter
directory = pathlib.Path(sys.argv[1])
for number, target in enumerate(map(int, sys.argv[2:])):
    path = directory / f"{number}.jsonl"
    child = os.fork()
    if child == 0:
        writer = LedgerWriter(path, run="run", cell="c", writer=str(number))
        count = 0
        while True:
            writer.write(NoteRecord(message=f"{count} " + "x" * (7 ** (count % 8))))
            count += 1
    while not path.exists() or path.stat().st_size < target:
        os.sched_yield()
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status))
"""


def notes(path: Path) -> list[int]:
    return [int(r.message.split()[0]) for r in read_ledger(path).records if isinstance(r, NoteRecord)]


def test_a_writer_that_is_killed_again_and_again_always_leaves_a_ledger_that_can_be_read(tmp_path: Path) -> None:
    draw = random.Random(4)  # noqa: S311 - where to kill, the same every time
    targets = [str(draw.randrange(1, 3_000_000)) for _ in range(KILLS)]
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path), *targets],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == [str(int(signal.SIGKILL))] * KILLS
    for number in range(KILLS):
        path = tmp_path / f"{number}.jsonl"
        ledger = read_ledger(path)
        assert ledger.damaged == []
        assert ProblemKind.NO_TRAILER in {problem.kind for problem in ledger.problems}
        assert notes(path) == list(range(len(ledger.records))), "no record before the kill is lost or doubled"
        whole = path.read_bytes().count(b"\n")
        assert len(ledger.records) == max(0, whole - 1), "every whole line is a record"


def test_a_ledger_cut_at_any_byte_has_its_whole_lines_and_says_that_it_is_not_finished(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path / "l", run="run", cell="c", writer="w") as writer:
        for number in range(3):
            writer.write(NoteRecord(message=f"{number} ü"))
    data = (tmp_path / "l").read_bytes()
    for cut in range(len(data)):
        ledger = parse_ledger(data[:cut], path="l")
        assert not ledger.complete
        assert {problem.kind for problem in ledger.problems} <= UNFINISHED
        assert len(ledger.records) == min(3, max(0, data[:cut].count(b"\n") - 1))
    assert parse_ledger(data, path="l").complete


def test_many_processes_write_a_cell_at_once_and_read_as_one_story(tmp_path: Path) -> None:
    writers, records = 6, 30
    children = []
    for number in range(writers):
        program = (
            "import pathlib, sys\n"
            "from runner.ledger.records import NoteRecord\n"
            "from runner.ledger.writer import LedgerWriter\n"
            "with LedgerWriter(pathlib.Path(sys.argv[1]), run='run', cell='c', writer=sys.argv[2]) as w:\n"
            f"    for n in range({records}):\n"
            "        w.write(NoteRecord(message=f'{n} {sys.argv[2]}'))\n"
        )
        path = tmp_path / f"ledger-{number}.jsonl"
        children.append(subprocess.Popen([sys.executable, "-c", program, str(path), str(number)], cwd=ROOT))
    assert [child.wait(timeout=60) for child in children] == [0] * writers
    ledgers = [read_ledger(path) for path in sorted(tmp_path.iterdir())]
    assert all(ledger.complete for ledger in ledgers)
    story = [record for record in in_order(ledgers) if isinstance(record, NoteRecord)]
    times = [record.at for record in story if record.at]
    assert len(times) == writers * records
    assert times == sorted(times)
    for number in range(writers):
        mine = [record.message for record in story if record.message.endswith(f" {number}")]
        assert mine == [f"{n} {number}" for n in range(records)], "the order within a writer is its own"
