"""The gate, rule by rule, and every combination in which one rule could hide another."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.base.terms import ExitCode, Lane, Outcome
from runner.ledger.records import Severity, Trailer
from runner.verdict.evidence import NOT_APPLICABLE
from runner.verdict.gate import exit_code
from runner.verdict.model import Rule, SampleState

if TYPE_CHECKING:
    from conftest import MakeWorld, World


def rules(world: World) -> list[Rule]:
    return [reason.rule for reason in world.judged().reasons]


def ledger_of_another_run(world: World) -> bytes:
    """Sound in itself: only its header says that it does not belong here."""
    *lines, _ = world.bytes_of(world.key).splitlines(keepends=True)
    body = b"".join(lines).replace(b'"run":"run"', b'"run":"old"')
    trailer = Trailer(
        records=len(lines), sha256=hashlib.sha256(body).hexdigest(), ended_at=datetime(2026, 1, 2, 4, tzinfo=UTC)
    )
    return body + trailer.model_dump_json().encode() + b"\n"


def test_a_sample_is_told_by_its_gravest_finding_whatever_came_first(world: World) -> None:
    soft = world.finding(Severity.SOFT, "content").model_copy(update={"message": "another form"})
    hard = world.hard(0)
    hard.findings = [soft, *hard.findings]
    world.records[world.key][0] = hard
    first, _ = world.verdict().cells[0].samples
    assert first.state is SampleState.HARD
    assert first.message == hard.findings[1].message != soft.message


def test_clean_complete_evidence_passes(world: World) -> None:
    verdict = world.verdict()
    cell = verdict.cells[0]
    assert (cell.outcome, verdict.exit_code, cell.failed, cell.reasons) == (Outcome.PASS, ExitCode.OK, False, [])
    assert (cell.completed_samples, cell.turns, cell.seconds) == (2, 30, 5.0)
    assert (cell.prompt_tokens, cell.completion_tokens, cell.retries) == (8000, 800, {})
    assert {sample.state for sample in cell.samples} == {SampleState.CLEAN}
    assert verdict.passed


def test_a_check_that_could_not_be_made_is_said_of_the_cell_once(world: World) -> None:
    note = world.finding(Severity.NOTE, NOT_APPLICABLE).model_copy(update={"message": "no canonical form"})
    other = world.finding(Severity.NOTE, "control_text").model_copy(update={"message": "a forged turn"})
    for index in range(2):
        world.records[world.key][index] = world.sample(world.cell, index, findings=[note, other])
    cell = world.verdict().cells[0]
    assert (cell.outcome, cell.notes) == (Outcome.PASS, ["no canonical form"])


class TestEvidence:
    def check(self, world: World, said: str, outcome: Outcome = Outcome.INCOMPLETE) -> None:
        verdict = world.verdict()
        cell = verdict.cells[0]
        assert cell.outcome is outcome
        assert verdict.exit_code is ExitCode.INCOMPLETE
        assert not cell.failed
        assert said in cell.reasons[0].message

    def test_no_ledger_is_incomplete(self, world: World) -> None:
        world.records.clear()
        self.check(world, "there is no ledger")

    def test_a_dropped_sample_line_is_incomplete(self, world: World) -> None:
        lines = world.bytes_of(world.key).splitlines(keepends=True)
        world.data[world.key] = b"".join([lines[0], *lines[2:]])
        self.check(world, "sha256")

    def test_a_sample_that_was_never_written_is_incomplete(self, world: World) -> None:
        world.records[world.key].pop()
        self.check(world, "no terminal record of sample 1")

    def test_a_dropped_trailer_is_incomplete(self, world: World) -> None:
        world.data[world.key] = b"".join(world.bytes_of(world.key).splitlines(keepends=True)[:-1])
        self.check(world, "the trailer is missing")

    def test_an_edited_line_is_incomplete(self, world: World) -> None:
        world.records[world.key][0] = world.hard(0)
        edited = world.bytes_of(world.key).replace(b'"hard_mismatch_count":1', b'"hard_mismatch_count":0')
        world.data[world.key] = edited
        self.check(world, "sha256")

    def test_a_torn_last_line_is_incomplete(self, world: World) -> None:
        world.data[world.key] = world.bytes_of(world.key)[:-20]
        self.check(world, "torn")

    def test_an_empty_ledger_is_incomplete(self, world: World) -> None:
        world.records.clear()
        world.data[world.key] = b"\n"
        self.check(world, "not a header")

    def test_two_terminal_records_of_a_sample_are_incomplete(self, world: World) -> None:
        world.records[world.key].append(world.sample(world.cell, 1))
        self.check(world, "sample 1 has 2 terminal records")

    def test_a_sample_that_was_not_planned_is_incomplete(self, world: World) -> None:
        world.records[world.key].append(world.sample(world.cell, 2))
        self.check(world, "sample 2 has a terminal record and was not planned")

    def test_the_ledger_of_another_run_is_incomplete(self, world: World) -> None:
        world.data[world.key] = ledger_of_another_run(world)
        self.check(world, "run 'old', expected 'run'")

    def test_what_the_ledger_of_another_run_says_is_not_believed(self, world: World) -> None:
        world.break_lease()
        world.records[world.key][0] = world.hard(0)
        world.data[world.key] = ledger_of_another_run(world)
        self.check(world, "run 'old', expected 'run'")
        assert rules(world) == [Rule.EVIDENCE]

    def test_the_ledger_of_another_cell_is_incomplete(self, three: World) -> None:
        three.data[three.key] = three.bytes_of(str(three.plan.cells[1].id))
        self.check(three, "expected 'qwen3/v1-openai/baseline'")

    @pytest.mark.parametrize("change", [{"seed": 4711}, {"stream": None}, {"worker": 1}])
    def test_a_sample_that_was_not_driven_as_planned_is_incomplete(
        self, world: World, change: dict[str, object]
    ) -> None:
        if "stream" in change:
            change = {"stream": not world.cell.samples[0].stream}
        world.records[world.key][0] = world.sample(world.cell, 0, **change)
        self.check(world, "planned is")

    @pytest.mark.parametrize(("ids", "sound"), [(["one", "two"], True), (["one", "one"], False), ([None, None], True)])
    def test_two_workers_under_one_id_are_no_evidence_of_two(
        self, make_world: MakeWorld, ids: list[str | None], sound: bool
    ) -> None:
        world = make_world(lanes="v1-openai", workers=2)
        world.records[world.key] = [
            world.sample(world.cell, sample.index, instance_id=ids[sample.worker]) for sample in world.cell.samples
        ]
        if sound:
            (cell,) = [cell for cell in world.verdict().cells if cell.cell == world.key]
            assert cell.outcome is Outcome.PASS
            assert sorted(sample.worker for sample in cell.samples) == [0, 1]
        else:
            self.check(world, "workers 0, 1 all say that they are instance 'one'")

    def test_a_lane_that_was_never_collected_is_incomplete(self, three: World) -> None:
        del three.records[str(three.plan.cells[2].id)]
        verdict = three.verdict()
        assert [cell.outcome for cell in verdict.cells] == [Outcome.PASS, Outcome.PASS, Outcome.INCOMPLETE]
        assert verdict.exit_code is ExitCode.INCOMPLETE

    def test_a_ledger_that_no_plan_knows_keeps_the_run_from_passing(self, world: World) -> None:
        world.data["glm47/v1-openai/baseline"] = world.bytes_of(world.key)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.PASS
        assert verdict.exit_code is ExitCode.INCOMPLETE
        assert "glm47/v1-openai/baseline" in verdict.problems[0]

    def test_a_lease_ledger_without_trailer_makes_its_cells_incomplete(self, world: World) -> None:
        world.records["lease:qwen3"] = []
        world.data["lease:qwen3"] = world.bytes_of("lease:qwen3").splitlines(keepends=True)[0]
        self.check(world, "the trailer is missing")

    def test_a_clean_lease_ledger_changes_nothing(self, world: World) -> None:
        world.records["lease:qwen3"] = []
        assert world.verdict().passed

    def test_every_writer_needs_its_trailer(self, world: World) -> None:
        from runner.ledger.reader import parse_ledger
        from runner.verdict.gate import decide

        whole = world.bytes_of(world.key)
        header = whole.splitlines(keepends=True)[0]
        ledgers = {world.key: [parse_ledger(whole, path="a"), parse_ledger(header, path="b")]}
        verdict = decide(world.plan, ledgers)
        assert verdict.cells[0].outcome is Outcome.INCOMPLETE
        assert "b: the trailer is missing" in verdict.cells[0].reasons[0].message


class TestVerificationErrors:
    def test_one_error_fails_the_cell_although_other_samples_are_clean(self, world: World) -> None:
        world.records[world.key][1] = world.error(1)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.VERIFIER_ERROR
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
        message = verdict.cells[0].reasons[0].message
        for said in ("1 verification error", "prefix x1", "sample 1", "token 5 differs", "completed_samples=1"):
            assert said in message

    def test_the_message_counts_errors_and_names_all_stages(self, make_world: MakeWorld) -> None:
        world = make_world(lanes="v1-openai", samples=4)
        world.records[world.key][1:] = [world.error(1), world.error(2), world.error(3, stage="counts")]
        message = world.judged().reasons[0].message
        assert "3 verification errors (stages: prefix x2, counts x1)" in message
        assert "completed_samples=1" in message

    def test_a_model_that_kept_stopping_early_is_told_apart(self, world: World) -> None:
        world.records[world.key][1] = world.error(1, model=True)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.MODEL_INCOMPLETE
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED

    def test_a_real_error_beside_a_stopping_model_is_a_verifier_error(self, world: World) -> None:
        world.records[world.key] = [world.error(0, model=True), world.error(1)]
        assert world.judged().outcome is Outcome.VERIFIER_ERROR

    def test_an_error_of_the_whole_cell_ends_the_samples_that_had_not_begun(self, world: World) -> None:
        world.records[world.key] = [world.sample(world.cell, 0), world.error(None, stage="health")]
        cell = world.judged()
        assert cell.outcome is Outcome.VERIFIER_ERROR
        assert [sample.state for sample in cell.samples] == [SampleState.CLEAN, SampleState.ERROR]

    def test_an_error_of_the_whole_cell_fails_it_although_all_samples_are_clean(self, world: World) -> None:
        world.records[world.key].append(world.error(None))
        assert world.judged().outcome is Outcome.VERIFIER_ERROR


class TestSamples:
    def test_a_cell_without_any_planned_sample_cannot_pass(self, world: World) -> None:
        world.cell.samples.clear()
        world.records[world.key].clear()
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.VERIFIER_ERROR
        assert rules(world) == [Rule.SAMPLES]
        assert "completed_samples=0" in verdict.cells[0].reasons[0].message
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED


class TestHard:
    def test_one_hard_mismatch_fails_the_cell(self, world: World) -> None:
        world.records[world.key][1] = world.hard(1)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.HARD
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
        message = verdict.cells[0].reasons[0].message
        for said in ("1 hard mismatch in 1 of 2 samples", "non_assistant_text", "sample 1 turn 3", "newline is lost"):
            assert said in message

    def test_a_hard_finding_fails_even_where_the_count_says_zero(self, world: World) -> None:
        finding = world.finding(Severity.HARD, "special_token_type")
        world.records[world.key][0] = world.sample(world.cell, 0, findings=[finding])
        assert world.judged().outcome is Outcome.HARD

    def test_a_count_fails_even_without_a_finding_and_shows_its_example(self, world: World) -> None:
        example = {"type": "special_token_count", "detail": "3 segments, expected 4"}
        world.records[world.key][0] = world.sample(
            world.cell,
            0,
            hard_mismatch_count=2,
            hard_mismatch_types=["special_token_count"],
            hard_mismatch_example=example,
        )
        cell = world.judged()
        assert cell.outcome is Outcome.HARD
        assert "2 hard mismatches" in cell.reasons[0].message
        assert "3 segments, expected 4" in cell.reasons[0].message

    def test_an_error_comes_before_a_hard_mismatch_and_both_are_told(self, world: World) -> None:
        world.records[world.key] = [world.hard(0), world.error(1)]
        assert rules(world) == [Rule.VERIFICATION_ERROR, Rule.HARD]


class TestCoverage:
    def test_no_append_tool_in_any_sample_fails(self, world: World) -> None:
        events = world.cell.required_events
        world.records[world.key] = [world.sample(world.cell, index, driver_events=events) for index in (0, 1)]
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.VERIFIER_ERROR
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
        assert "no sample shows append_tool" in verdict.cells[0].reasons[0].message

    def test_append_tool_in_one_sample_is_enough(self, world: World) -> None:
        world.records[world.key][0] = world.sample(world.cell, 0, driver_events=world.cell.required_events)
        assert world.judged().outcome is Outcome.PASS

    @pytest.mark.parametrize("event", ["rollback", "append_user", "append_system", "append_assistant"])
    def test_each_sample_needs_every_required_event(self, world: World, event: str) -> None:
        events = [name for name in (*world.cell.required_events, "append_tool") if name != event]
        world.records[world.key][1] = world.sample(world.cell, 1, driver_events=events)
        cell = world.judged()
        assert cell.outcome is Outcome.VERIFIER_ERROR
        assert f"sample 1 lacks {event}" in cell.reasons[0].message

    def test_an_event_that_is_required_twice_must_occur_twice(self, make_world: MakeWorld) -> None:
        world = make_world(lanes="v2-anthropic")
        events = list(world.cell.required_events)
        events.remove("anthropic_tool_result_string")
        world.records[world.key][0] = world.sample(world.cell, 0, driver_events=events)
        assert "sample 0 lacks anthropic_tool_result_string" in world.judged().reasons[0].message


class TestSoft:
    def soft(self, world: World, number: int, kind: str = "whitespace_only") -> None:
        for index in range(number):
            finding = world.finding(Severity.SOFT, kind)
            world.records[world.key][index] = world.sample(
                world.cell, index, had_assistant_mismatch=True, assistant_mismatch_count=1, findings=[finding]
            )

    def test_a_ratio_at_the_limit_passes_and_above_it_fails(self, make_world: MakeWorld) -> None:
        world = make_world(lanes="v1-openai", samples=4)
        self.soft(world, 1)
        assert world.cell.limits.soft == 0.25
        assert world.judged().outcome is Outcome.PASS
        assert world.judged().soft_ratio == 0.25
        self.soft(world, 2)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.SOFT
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
        assert "2 of 4 samples (0.50)" in verdict.cells[0].reasons[0].message

    def test_the_flag_alone_counts_as_well_as_a_finding_alone(self, world: World) -> None:
        world.records[world.key][0] = world.sample(world.cell, 0, had_assistant_mismatch=True)
        assert world.judged().outcome is Outcome.SOFT
        world.records[world.key][0] = world.sample(
            world.cell, 0, findings=[world.finding(Severity.SOFT, "reasoning_boundary")]
        )
        assert world.judged().outcome is Outcome.SOFT

    def test_changed_content_fails_where_any_harmless_difference_is_tolerated(self, make_world: MakeWorld) -> None:
        world = make_world(lanes="v2-anthropic")
        assert world.cell.limits.soft == 1.0
        self.soft(world, 2)
        assert world.judged().outcome is Outcome.PASS
        self.soft(world, 1, "content")
        assert world.judged().outcome is Outcome.SOFT
        assert rules(world) == [Rule.CONTENT]

    def test_a_note_counts_for_nothing(self, world: World) -> None:
        findings = [world.finding(Severity.NOTE, "render_parity")]
        world.records[world.key][0] = world.sample(world.cell, 0, findings=findings)
        assert world.judged().outcome is Outcome.PASS


class TestRetries:
    def test_a_pass_on_retry_is_visible(self, world: World) -> None:
        world.records[world.key][0] = world.sample(world.cell, 0, retries={"length": 2})
        cell = world.judged()
        assert cell.outcome is Outcome.PASS
        assert cell.passed_on_retry
        assert cell.retries == {"length": 2}

    def test_retries_have_their_own_limit(self, world: World) -> None:
        world.cell.limits.retries = 1
        world.records[world.key][0] = world.sample(world.cell, 0, retries={"length": 1})
        assert world.judged().outcome is Outcome.PASS
        world.records[world.key][0] = world.sample(world.cell, 0, retries={"length": 1, "empty": 1})
        cell = world.judged()
        assert (cell.outcome, cell.failed, cell.passed_on_retry) == (Outcome.SOFT, True, False)
        assert rules(world) == [Rule.RETRIES]

    def test_retries_of_a_sample_that_failed_are_counted_from_its_attempts(self, world: World) -> None:
        world.records[world.key][0:1] = [world.attempt(0), world.attempt(0), world.error(0, model=True)]
        assert world.judged().retries == {"length": 2}


class TestInfrastructure:
    def test_what_broke_under_a_sample_makes_the_cell_infra(self, world: World) -> None:
        world.records[world.key][1] = world.infra(index=1)
        verdict = world.verdict()
        cell = verdict.cells[0]
        assert (cell.outcome, cell.failed, verdict.exit_code) == (Outcome.INFRA, False, ExitCode.INFRASTRUCTURE)
        assert "engine: it ended (exit code 137)" in cell.reasons[0].message
        assert cell.log_tail == ["last words"]

    def test_a_broken_lease_makes_unfinished_cells_infra_and_leaves_finished_ones(self, three: World) -> None:
        first, second, third = (str(cell.id) for cell in three.plan.cells)
        three.break_lease()
        three.data[second] = b"".join(three.bytes_of(second).splitlines(keepends=True)[:2])
        del three.records[third]
        verdict = three.verdict()
        assert [cell.outcome for cell in verdict.cells] == [Outcome.PASS, Outcome.INFRA, Outcome.INFRA]
        assert verdict.exit_code is ExitCode.INFRASTRUCTURE
        assert not any(cell.failed for cell in verdict.cells)
        assert "engine: it ended" in verdict.cells[0].notes[0]
        assert first in verdict.cells[0].cell

    def test_a_break_after_the_last_cell_was_done_costs_nothing(self, world: World) -> None:
        world.break_lease()
        assert world.verdict().passed

    def test_a_cell_that_passed_when_its_lease_was_created_again_is_infra_and_says_so(self, world: World) -> None:
        world.recreate(world.key)
        verdict = world.verdict()
        (cell,) = verdict.cells
        assert (cell.outcome, cell.failed, cell.passed_on_retry, cell.passed_again) == (
            Outcome.INFRA,
            False,
            False,
            True,
        )
        assert verdict.exit_code is ExitCode.INFRASTRUCTURE
        assert "engine: it ended (exit code 137); the cell passed when its lease was created again" in (
            cell.reasons[0].message
        )
        assert "leases/qwen3/try-1" in cell.reasons[0].message
        assert cell.log_tail == ["last words"]

    def test_where_the_plan_accepts_it_such_a_cell_passes_on_retry_and_never_silently(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world(lanes="v1-openai", on_infra="accept")
        world.recreate(world.key)
        verdict = world.verdict()
        (cell,) = verdict.cells
        assert (cell.outcome, cell.passed_on_retry, cell.reasons) == (Outcome.PASS, True, [])
        assert cell.retried == [
            "the lease was created again after engine: it ended (exit code 137); first try: leases/qwen3/try-1"
        ]
        world.recreate(world.key)
        assert world.verdict().cells[0].outcome is Outcome.INFRA, "once, and no more"

    def test_what_the_second_try_shows_counts_as_ever(self, world: World) -> None:
        world.recreate(world.key)
        world.records[world.key][0] = world.hard(0)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.HARD
        assert not verdict.cells[0].passed_again
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED
        assert "created again" in verdict.cells[0].retried[0]

    def test_a_second_try_that_breaks_as_well_is_infra_for_what_broke_it(self, world: World) -> None:
        world.recreate(world.key)
        world.records["lease:qwen3"].append(world.infra())
        del world.records[world.key][1]
        (cell,) = world.verdict().cells
        assert cell.outcome is Outcome.INFRA
        assert not cell.passed_again

    def test_a_cell_that_was_done_before_the_break_is_only_told_of_it(self, three: World) -> None:
        three.recreate(str(three.plan.cells[1].id))
        first, second, _ = three.verdict().cells
        assert (first.outcome, second.outcome) == (Outcome.PASS, Outcome.INFRA)
        assert not first.passed_on_retry
        assert first.notes == ["did not cost this cell anything: engine: it ended (exit code 137)"]

    def test_a_broken_lease_of_another_family_explains_nothing(self, make_world: MakeWorld) -> None:
        world = make_world(family="qwen3,glm47", engine="gpu", lanes="v1-openai")
        world.break_lease()
        glm = str(world.plan.cells[1].id)
        del world.records[glm]
        outcomes = [cell.outcome for cell in world.verdict().cells]
        assert outcomes == [Outcome.PASS, Outcome.INCOMPLETE]

    def test_a_finished_cell_with_a_failed_check_stays_failed_in_a_broken_lease(self, world: World) -> None:
        world.break_lease()
        world.records[world.key][1] = world.error(1)
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.VERIFIER_ERROR
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED

    def test_errors_in_a_cell_that_lost_samples_are_told_and_not_blamed_on_the_server(self, world: World) -> None:
        world.records[world.key] = [world.error(0), world.infra(index=1)]
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.INFRA
        assert verdict.exit_code is ExitCode.INFRASTRUCTURE
        assert rules(world) == [Rule.INFRASTRUCTURE, Rule.VERIFICATION_ERROR]

    def test_a_hard_mismatch_is_not_hidden_by_infra_in_the_same_cell(self, world: World) -> None:
        world.records[world.key] = [world.hard(0), world.infra(index=1)]
        verdict = world.verdict()
        assert (verdict.cells[0].outcome, verdict.cells[0].failed) == (Outcome.INFRA, True)
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED

    def test_a_damaged_ledger_is_not_explained_by_a_broken_lease(self, world: World) -> None:
        world.break_lease()
        world.data[world.key] = world.bytes_of(world.key).replace(b'"turns":15', b'"turns":16')
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.INCOMPLETE
        assert verdict.exit_code is ExitCode.INCOMPLETE

    def test_a_break_of_the_whole_cell_ends_the_samples_that_had_not_begun(self, world: World) -> None:
        world.records[world.key] = [world.sample(world.cell, 0), world.infra(service="session-v1")]
        cell = world.judged()
        assert cell.outcome is Outcome.INFRA
        assert [sample.state for sample in cell.samples] == [SampleState.CLEAN, SampleState.INFRA]

    def test_infra_does_not_complain_about_coverage_it_prevented(self, world: World) -> None:
        world.records[world.key] = [world.sample(world.cell, 0, driver_events=[]), world.infra(index=1)]
        assert rules(world) == [Rule.INFRASTRUCTURE]


class TestIncompleteAndFailed:
    def test_a_hard_mismatch_is_not_hidden_by_missing_evidence(self, world: World) -> None:
        world.records[world.key] = [world.hard(0)]
        verdict = world.verdict()
        assert (verdict.cells[0].outcome, verdict.cells[0].failed) == (Outcome.INCOMPLETE, True)
        assert rules(world) == [Rule.EVIDENCE, Rule.HARD]
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED

    def test_an_error_is_not_hidden_by_a_missing_trailer(self, world: World) -> None:
        world.records[world.key][1] = world.error(1)
        world.data[world.key] = b"".join(world.bytes_of(world.key).splitlines(keepends=True)[:-1])
        verdict = world.verdict()
        assert verdict.cells[0].outcome is Outcome.INCOMPLETE
        assert verdict.exit_code is ExitCode.VERIFICATION_FAILED


class TestNotApplicable:
    def test_a_lane_that_is_not_built_is_listed_with_its_reason_and_the_run_may_pass(
        self, make_world: MakeWorld
    ) -> None:
        world = make_world(frozenset({Lane.V1_OPENAI}))
        verdict = world.verdict()
        assert [cell.outcome for cell in verdict.cells] == [
            Outcome.PASS,
            Outcome.NOT_APPLICABLE,
            Outcome.NOT_APPLICABLE,
        ]
        assert verdict.passed
        assert all("does not drive" in cell.reasons[0].message for cell in verdict.cells[1:])

    def test_a_run_in_which_nothing_can_run_is_not_green(self, world: World) -> None:
        world.cell.applicable = False
        world.cell.reason = "because"
        world.records.clear()
        verdict = world.verdict()
        assert verdict.exit_code is ExitCode.INCOMPLETE
        assert "nothing was verified" in verdict.problems[0]

    def test_a_plan_without_cells_is_not_green(self, world: World) -> None:
        world.plan.cells.clear()
        world.records.clear()
        assert world.verdict().exit_code is ExitCode.INCOMPLETE

    def test_a_cell_that_cannot_run_and_has_a_ledger_is_incomplete(self, world: World) -> None:
        world.cell.applicable = False
        assert world.judged().outcome is Outcome.INCOMPLETE


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["pass", "pass", "pass"], ExitCode.OK),
        (["pass", "incomplete", "pass"], ExitCode.INCOMPLETE),
        (["pass", "incomplete", "infra"], ExitCode.INFRASTRUCTURE),
        (["hard", "incomplete", "infra"], ExitCode.VERIFICATION_FAILED),
        (["infra", "incomplete", "error"], ExitCode.VERIFICATION_FAILED),
        (["infra", "infra", "infra"], ExitCode.INFRASTRUCTURE),
    ],
)
def test_a_failure_is_never_hidden_by_what_happened_elsewhere(
    three: World, kinds: list[str], expected: ExitCode
) -> None:
    for cell, kind in zip(three.plan.cells, kinds, strict=True):
        key = str(cell.id)
        match kind:
            case "incomplete":
                del three.records[key]
            case "infra":
                three.records[key][0] = three.infra(index=0)
            case "error":
                three.records[key][0] = three.error(0)
            case "hard":
                three.records[key][0] = three.sample(cell, 0, hard_mismatch_count=1, hard_mismatch_types=["x"])
    assert three.verdict().exit_code is expected


def test_no_cell_that_passed_is_never_exit_code_0(three: World) -> None:
    cells = three.verdict().cells
    assert exit_code(cells) is ExitCode.OK
    assert exit_code([]) is ExitCode.INCOMPLETE
    assert exit_code([cells[0].model_copy(update={"outcome": Outcome.NOT_APPLICABLE})]) is ExitCode.INCOMPLETE


def test_faults_put_in_on_purpose_are_shown(world: World) -> None:
    world.records[world.key].insert(0, world.fault())
    assert world.judged().faults == ["drop-newline: turn 3"]


def test_without_a_record_the_line_has_all_that_the_plan_fixed(make_world: MakeWorld) -> None:
    world = make_world(family="glm47", engine="gpu", lanes="v2-openai", samples=3, seed=99)
    expected = "make e2e CELL=glm47/v2-openai/baseline SEED=99 SAMPLES=3 CYCLES=3 ENGINE=gpu"
    assert world.judged().reproduce == expected


def test_without_a_record_servers_that_already_ran_are_named_again(make_world: MakeWorld) -> None:
    world = make_world(lanes="v1-openai", session_v1_url="http://there:8080", tokenizer=Path("/a tokenizer"), seed=1)
    assert world.judged().reproduce == (
        "make e2e CELL=qwen3/v1-openai/baseline SEED=1 SAMPLES=2 CYCLES=2 SESSION_V1_URL=http://there:8080"
        " TOKENIZER='/a tokenizer'"
    )


def test_a_verdict_survives_its_own_file(three: World) -> None:
    three.records[three.key][0] = three.hard(0)
    verdict = three.verdict()
    assert type(verdict).model_validate_json(verdict.model_dump_json()) == verdict
