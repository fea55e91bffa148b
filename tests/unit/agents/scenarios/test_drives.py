"""Everything that can be planned can be driven, and nothing is driven that nobody plans."""

from __future__ import annotations

import pytest

from runner.agents.scenarios.drives import DRIVES, drive_of
from runner.base.errors import ConfigurationError
from runner.base.terms import Lane, WireFormat
from runner.plan.scenarios import SCENARIOS


def test_every_scenario_has_a_script_for_each_wire_on_which_it_can_run_and_for_no_other() -> None:
    planned = {
        (name, lane.wire) for name, scenario in SCENARIOS.items() for lane in Lane if lane not in scenario.refuses
    }
    assert set(DRIVES) == planned


def test_a_plan_with_an_unknown_scenario_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigurationError, match=r"no script for the scenario 'chaos' on the openai wire; it has .*base"
    ):
        drive_of("chaos", WireFormat.OPENAI)
