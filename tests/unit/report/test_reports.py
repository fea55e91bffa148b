"""The reports of a finished run: each shows what the verdict says, and none can be broken by what models print."""

from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from runner.base.events import PhaseEvent
from runner.base.settings import Settings
from runner.base.terms import ExitCode, Outcome
from runner.ledger.records import TokenDiff
from runner.plan.model import Plan
from runner.report.closing import print_closing
from runner.report.html import html
from runner.report.summary import github_annotations, summary
from runner.report.text import diff_lines, duration, headline, plain, visible
from runner.report.write import report_to_github, write_files, write_plan, write_reports
from runner.verdict.model import Verdict

if TYPE_CHECKING:
    from conftest import MakeCell

NASTY = 'a|b `c` <script>alert(1)</script> & "q"\r\n::error::x %0A [red]r[/red] \x1b[31m\x00\ufffe'


def closing(verdict: Verdict, run: Path = Path("artifacts/x")) -> str:
    stream = io.StringIO()
    print_closing(verdict, run, stream=stream)
    return stream.getvalue()


def one_cell(cell: object, code: ExitCode = ExitCode.VERIFICATION_FAILED) -> Verdict:
    return Verdict.model_validate({"run_id": "run", "exit_code": code, "cells": [cell]})


class TestText:
    def test_durations(self) -> None:
        assert [duration(s) for s in (0, 4.24, 59.9, 60, 185, 3723)] == [
            "0.0 s",
            "4.2 s",
            "59.9 s",
            "1 min 00 s",
            "3 min 05 s",
            "1 h 02 min",
        ]

    def test_white_space_and_control_characters_are_spelt_out(self) -> None:
        assert visible('a\n\tb"\\\x00') == '"a\\n\\tb\\"\\\\\\u0000"'

    def test_a_text_cannot_steer_a_terminal_and_keeps_its_letters(self) -> None:
        assert plain("a\x1b[1;31mb\x1b[0m\x08c\r\nd\te\u00a0ü 天\u202e") == "ab\ufffdc\nd\te\u00a0ü 天\ufffd"

    def test_a_token_diff_marks_the_first_difference(self, diff: TokenDiff) -> None:
        assert diff_lines(diff) == [
            "first difference at token 57: expected id 198, seen id 872",
            "expected ids   1 151645 [198] 3",
            "seen ids       1 151645 [872] 3",
            'expected text  "<|im_end|>\\nuser"',
            'seen text      "<|im_end|>user"',
        ]

    def test_a_sequence_that_ends_early_says_so(self, diff: TokenDiff) -> None:
        short = diff.model_copy(update={"actual_id": None, "actual_ids": []})
        lines = diff_lines(short)
        assert lines[0].endswith("seen the end")
        assert lines[2] == "seen ids       (ends here)"

    def test_the_headline_says_how_it_ended(self, verdict: Verdict) -> None:
        counts = "1 pass, 1 hard, 1 model-incomplete, 1 infra, 1 incomplete, 1 not-applicable"
        assert headline(verdict) == f"FAIL: {counts} (1 on retry); exit code 1"
        cut = verdict.model_copy(update={"interrupted": True})
        assert headline(cut) == f"{headline(verdict)}, interrupted"


class TestClosing:
    def test_a_pass_shows_cells_turns_tokens_seconds_retries_and_artifacts(self, make_cell: MakeCell) -> None:
        text = closing(
            one_cell(make_cell(retries={"length": 2}, passed_on_retry=True), ExitCode.OK), Path("artifacts/77")
        )
        (line,) = [line for line in text.splitlines() if "qwen3/v1-openai" in line]
        assert [part.strip() for part in line.strip().strip("│").split("│")] == [
            "qwen3/v1-openai/baseline",
            "pass (on retry)",
            "2/2",
            "30",
            "8111",
            "822",
            "22.5",
            "65.0",
            "2 (length 2)",
        ]
        assert text.rstrip().endswith("artifacts: artifacts/77")
        assert "PASS: 1 pass (1 on retry); exit code 0" in text

    def test_after_a_failure_the_last_thing_is_what_one_needs_next(self, make_cell: MakeCell) -> None:
        text = closing(one_cell(make_cell(outcome=Outcome.HARD, message="1 hard mismatch")))
        last = text[text.index("\n\n") :].strip().splitlines()
        assert last[0] == "qwen3/v1-openai/baseline: hard"
        assert "expected  the stored tokens to be exactly those" in last[1]
        assert last[2].endswith("1 hard mismatch")
        assert "sample 0, turn 3 (tool): prefix/prefix: the newline is lost" in last[3]
        assert last[4].strip() == "first difference at token 57: expected id 198, seen id 872"
        assert last[-2].strip() == "artifacts artifacts/x/cells/qwen3/v1-openai/baseline"
        assert last[-1].strip() == "again     make e2e CELL=qwen3/v1-openai/baseline SEED=1"

    def test_infra_shows_the_last_lines_of_what_broke_without_its_control_characters(self, verdict: Verdict) -> None:
        text = closing(verdict)
        assert "| last words\ufffd" in text
        assert "\x1b" not in text
        assert "\x07" not in text

    def test_what_cannot_run_is_listed_with_its_reason(self, verdict: Verdict) -> None:
        assert "minimax_m27/v2-anthropic/baseline: not applicable: the family opts out" in closing(verdict)

    def test_a_failure_beside_infra_is_said(self, make_cell: MakeCell) -> None:
        assert "infra (and a check failed)" in closing(one_cell(make_cell(outcome=Outcome.INFRA, failed=True)))

    def test_failed_cells_are_explained_before_infra_and_not_more_than_a_screen(self, make_cell: MakeCell) -> None:
        cells = [make_cell(f"f{n}/v1-openai/baseline", Outcome.INFRA) for n in range(6)]
        cells.append(make_cell("bad/v1-openai/baseline", Outcome.HARD))
        text = closing(Verdict(run_id="run", exit_code=ExitCode.VERIFICATION_FAILED, cells=cells))
        explained = re.findall(r"^(\S+): (?:infra|hard)$", text, flags=re.MULTILINE)
        assert explained[0] == "bad/v1-openai/baseline"
        assert len(explained) == 5
        assert "and 2 more cells" in text

    def test_markup_in_a_message_is_printed_as_it_is(self, make_cell: MakeCell) -> None:
        assert "[red]r[/red]" in closing(one_cell(make_cell(outcome=Outcome.HARD, message=NASTY)))

    def test_retries_and_notes_of_a_cell_that_passed_are_shown_and_the_times_of_the_lease(
        self, verdict: Verdict
    ) -> None:
        text = closing(verdict)
        assert "qwen3/v1-openai/baseline: retried: sample 1 turn 4: retry 2 after length" in text
        assert "qwen3/v1-openai/baseline: note: the session could not be closed" in text
        assert "boot 46.0 s, verify 30.0 s" in text
        assert "all 2 lanes 30.0 s (1.33 x the longest, v1-openai)" in text

    def test_what_is_wrong_with_the_run_is_not_more_than_a_screen(self) -> None:
        problems = [f"problem {number}" for number in range(30)]
        verdict = Verdict(run_id="run", exit_code=ExitCode.INCOMPLETE, problems=problems, cells=[])
        text = closing(verdict)
        assert "problem 7" in text
        assert "problem 8" not in text
        assert "and 22 more problems" in text

    def test_a_replay_that_differs_says_so_and_not_that_something_is_missing(self, plan: Plan, tmp_path: Path) -> None:
        verdict = Verdict(run_id="run", exit_code=ExitCode.INCOMPLETE, problems=[], differences=["it is <x>"], cells=[])
        assert "not as recorded: it is <x>" in closing(verdict)
        assert "incomplete: " not in closing(verdict)
        assert "- **not as recorded**: it is &lt;x&gt;" in summary(verdict)
        assert github_annotations(verdict) == ["::error title=run%3A not as recorded::it is <x>"]
        page = html(plan, verdict)
        assert '<span class="chip warn">not as recorded</span> it is &lt;x&gt;' in page
        write_files(plan, verdict, tmp_path)
        assert 'type="not as recorded"' in (tmp_path / "junit.xml").read_text(encoding="utf-8")

    def test_a_run_without_evidence_as_a_whole_says_so(self) -> None:
        verdict = Verdict(run_id="run", exit_code=ExitCode.INCOMPLETE, problems=["nothing was verified"], cells=[])
        assert "incomplete: nothing was verified" in closing(verdict)


class TestJUnit:
    def read(self, verdict: Verdict, plan: Plan, tmp_path: Path) -> dict[str, ElementTree.Element]:
        write_files(plan, verdict, tmp_path)
        root = ElementTree.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 - our own file
        return {str(case.get("name")): case for case in root.iter("testcase")}

    def test_each_cell_is_one_testcase_with_its_kind_of_result(
        self, verdict: Verdict, plan: Plan, tmp_path: Path
    ) -> None:
        cases = self.read(verdict, plan, tmp_path)
        kinds = {name: [child.tag for child in case if child.tag != "system-out"] for name, case in cases.items()}
        assert kinds == {
            "qwen3/v1-openai/baseline": [],
            "qwen3/v2-openai/baseline": ["failure"],
            "qwen3/v2-anthropic/baseline": ["error"],
            "minimax_m27/v1-openai/baseline": ["error"],
            "minimax_m27/v2-openai/baseline": ["failure"],
            "minimax_m27/v2-anthropic/baseline": ["skipped"],
        }
        failure = cases["qwen3/v2-openai/baseline"].find("failure")
        assert failure is not None
        assert failure.get("type") == "hard"
        assert "expected id 198, seen id 872" in str(failure.text)
        assert "make e2e CELL=qwen3/v2-openai/baseline" in str(failure.text)
        skipped = cases["minimax_m27/v2-anthropic/baseline"].find("skipped")
        assert skipped is not None
        assert skipped.get("message") == "the family opts out"

    def test_a_run_without_evidence_as_a_whole_is_not_green(self, plan: Plan, tmp_path: Path) -> None:
        verdict = Verdict(run_id="run", exit_code=ExitCode.INCOMPLETE, problems=["nothing was verified"], cells=[])
        (case,) = self.read(verdict, plan, tmp_path).values()
        assert case.find("error") is not None

    def test_a_pass_on_retry_shows_its_retries_and_notes(self, verdict: Verdict, plan: Plan, tmp_path: Path) -> None:
        case = self.read(verdict, plan, tmp_path)["qwen3/v1-openai/baseline"]
        said = str(case.findtext("system-out"))
        assert "outcome pass (on retry)" in said
        assert "retries 2 (length 2)" in said
        assert "retried: sample 1 turn 4: retry 1 after length" in said
        assert "note: the session could not be closed" in said
        assert case.get("time") == "22.5"

    def test_characters_that_xml_cannot_hold_do_not_break_the_file(
        self, make_cell: MakeCell, plan: Plan, tmp_path: Path
    ) -> None:
        cases = self.read(one_cell(make_cell(outcome=Outcome.HARD, message=NASTY)), plan, tmp_path)
        failure = cases["qwen3/v1-openai/baseline"].find("failure")
        assert failure is not None
        assert "<script>alert(1)</script>" in str(failure.get("message"))


class TestSummary:
    def test_it_has_a_row_per_cell_and_a_section_per_cell_that_did_not_pass(self, verdict: Verdict) -> None:
        text = summary(verdict)
        assert text.startswith("## FAIL: 1 pass, 1 hard")
        for cell in verdict.cells:
            assert f"| `{cell.cell}` |" in text
        assert len(re.findall(r"^### `", text, flags=re.MULTILINE)) == 4
        assert (
            "- `qwen3/v1-openai/baseline`: pass (on retry)\n  - retried: sample 1 turn 4: retry 1 after length" in text
        )
        assert "  - note: the session could not be closed" in text
        assert "- `qwen3`: boot 46.0 s, verify 30.0 s" in text
        assert "first difference at token 57" in text
        assert "- `minimax_m27/v2-anthropic/baseline`: the family opts out" in text

    def test_it_stays_under_64_kib_and_says_that_it_was_cut(self, make_cell: MakeCell) -> None:
        cells = [make_cell(f"f{n}/v1-openai/baseline", Outcome.HARD, "ä" * 1500) for n in range(200)]
        text = summary(Verdict(run_id="run", exit_code=ExitCode.VERIFICATION_FAILED, cells=cells))
        assert 32 * 1024 < len(text.encode()) < 64 * 1024
        assert "left out here" in text

    def test_what_a_model_prints_is_not_read_as_markdown_or_html(self, make_cell: MakeCell) -> None:
        text = summary(one_cell(make_cell(outcome=Outcome.HARD, message=NASTY, log_tail=["```", "<b>"])))
        assert "<script>" not in text
        assert "a\\|b" in text
        assert "````\n```\n<b>\n````" in text


class TestAnnotations:
    def test_there_is_one_per_cell_that_did_not_pass_each_on_one_line(self, verdict: Verdict) -> None:
        lines = github_annotations(verdict)
        assert [line.split(" ", 1)[0] for line in lines] == ["::error"] * 4 + ["::warning"]
        assert lines[0].startswith(
            "::error title=qwen3/v2-openai/baseline%3A hard::1 hard mismatch in 1 of 2 samples%0A"
        )
        assert lines[4] == (
            "::warning title=qwen3/v1-openai/baseline%3A pass (on retry)::retries 2 (length 2)"
            "%0Asample 1 turn 4: retry 1 after length%0Asample 1 turn 4: retry 2 after length"
        )

    @pytest.mark.parametrize(("number", "expected"), [(0, 0), (1, 1), (10, 10), (11, 10), (50, 10)])
    def test_there_are_never_more_than_ten(self, make_cell: MakeCell, number: int, expected: int) -> None:
        cells = [make_cell(f"f{n}/v1-openai/baseline", Outcome.HARD) for n in range(number)]
        lines = github_annotations(Verdict(run_id="run", exit_code=ExitCode.VERIFICATION_FAILED, cells=cells))
        assert len(lines) == expected
        assert all(line.startswith("::error ") for line in lines)
        if number > 10:
            assert f"{number - 9} more" in lines[-1]

    def test_a_message_cannot_start_a_command_of_its_own(self, make_cell: MakeCell) -> None:
        (line,) = github_annotations(one_cell(make_cell(outcome=Outcome.HARD, message=NASTY)))
        assert "\n" not in line
        assert "\r" not in line
        assert "%250A" in line


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(str(value))
            if name == "href":
                self.links.append(str(value))
            if name == "src":
                self.loads.append(str(value))


def page(text: str) -> _Page:
    parsed = _Page()
    parsed.feed(text)
    return parsed


class TestPage:
    def test_every_link_of_the_matrix_leads_to_a_section(self, plan: Plan, verdict: Verdict) -> None:
        parsed = page(html(plan, verdict))
        targets = [link[1:] for link in parsed.links if link.startswith("#")]
        assert len(targets) == 6
        assert set(targets) <= set(parsed.ids)

    def test_it_needs_no_network_and_no_script(self, plan: Plan, verdict: Verdict) -> None:
        text = html(plan, verdict)
        parsed = page(text)
        assert parsed.loads == []
        assert not {"script", "link", "iframe", "img"} & set(parsed.tags)
        assert "http://" not in text
        assert "https://" not in text
        assert "url(" not in text

    def test_it_shows_findings_with_both_windows_and_the_first_difference(self, plan: Plan, verdict: Verdict) -> None:
        text = html(plan, verdict)
        assert '<span class="want">198</span>' in text
        assert '<span class="seen">872</span>' in text
        assert '&lt;|im_end|&gt;<mark class="want">\\n</mark>user' in text
        assert '&lt;|im_end|&gt;<mark class="seen">∅</mark>user' in text

    def test_it_shows_reasons_times_retries_versions_and_the_way_to_run_it_again(
        self, plan: Plan, verdict: Verdict
    ) -> None:
        text = html(plan, verdict, [PhaseEvent(lease="qwen3", phase="starting", detail="engine", seconds=46.2)])
        for said in (
            "1 hard mismatch in 1 of 2 samples",
            "2 (length 2)",
            "46.2\u00a0s",
            "0.5.23",
            "make e2e CELL=qwen3/v2-openai/baseline SEED=1",
            "the family opts out",
            "last words",
            "deprecated",
        ):
            assert said in text

    def test_a_finding_that_several_samples_show_is_there_once(self, make_cell: MakeCell, plan: Plan) -> None:
        cell = make_cell(outcome=Outcome.HARD)
        cell.samples = [cell.samples[0].model_copy(update={"index": index}) for index in (0, 2, 3)]
        text = html(plan, one_cell(cell))
        assert text.count("the newline is lost") == 1
        assert "samples 0, 2, 3, turn 3 (tool)" in text

    def test_what_a_model_prints_stays_text(self, make_cell: MakeCell, plan: Plan) -> None:
        text = html(plan, one_cell(make_cell(outcome=Outcome.HARD, message=NASTY, log_tail=[NASTY], notes=[NASTY])))
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text

    def test_it_follows_the_reader_s_light_or_dark(self, plan: Plan, verdict: Verdict) -> None:
        assert "prefers-color-scheme: dark" in html(plan, verdict)


class TestFiles:
    def test_all_reports_are_written_and_the_verdict_reads_back(
        self, plan: Plan, verdict: Verdict, tmp_path: Path
    ) -> None:
        write_plan(tmp_path, plan)
        stream = io.StringIO()
        written = write_reports(plan, verdict, tmp_path, Settings(), stream=stream)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "junit.xml",
            "plan.json",
            "report.html",
            "summary.md",
            "verdict.json",
        ]
        assert Verdict.model_validate_json(written.verdict.read_bytes()) == verdict
        assert json.loads(written.verdict.read_bytes())["exit_code"] == 1
        assert headline(verdict) in stream.getvalue()
        assert "::error" not in stream.getvalue()

    def test_reports_that_are_there_are_replaced(self, plan: Plan, verdict: Verdict, tmp_path: Path) -> None:
        (tmp_path / "verdict.json").write_text("old", encoding="utf-8")
        write_files(plan, verdict, tmp_path)
        assert json.loads((tmp_path / "verdict.json").read_bytes())["run_id"] == verdict.run_id

    def test_github_gets_the_summary_and_the_annotations_before_the_closing_page(
        self, plan: Plan, verdict: Verdict, tmp_path: Path
    ) -> None:
        step = tmp_path / "step.md"
        step.write_text("before\n", encoding="utf-8")
        stream = io.StringIO()
        settings = Settings.model_validate({"github_actions": "true", "github_step_summary": step})
        write_reports(plan, verdict, tmp_path / "run", settings, stream=stream)
        assert step.read_text(encoding="utf-8") == "before\n" + summary(verdict)
        assert stream.getvalue().startswith("::error title=")
        assert stream.getvalue().rstrip().splitlines()[-1].strip().startswith("again     make e2e")

    def test_nothing_is_said_to_github_where_it_was_not_asked_for(self, verdict: Verdict) -> None:
        stream = io.StringIO()
        report_to_github(verdict, step_summary=None, annotate=False, stream=stream)
        assert stream.getvalue() == ""
