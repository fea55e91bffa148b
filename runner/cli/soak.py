"""`soak`: the same plan many times, one run after the other, to see whether a clean ground ever gives a false alarm.

Each run is a whole `e2e` with artifacts and a verdict of its own: against servers that already run where their URLs are
given (`make up` starts some), else each starts and removes its own. The worst exit code is the series' own.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.base.errors import ConfigurationError, IncompleteError
from runner.base.terms import ExitCode
from runner.cli.e2e import drive, planned
from runner.cli.variables import apply
from runner.report.series import print_series
from runner.verdict.artifacts import load_recorded
from runner.verdict.model import Verdict

_WORST_FIRST = (ExitCode.VERIFICATION_FAILED, ExitCode.INFRASTRUCTURE, ExitCode.INCOMPLETE, ExitCode.OK)


def soak(variables: Sequence[str], runs: int) -> ExitCode:
    """Run `runs` times, print the table of all of them and return the worst exit code; 130 ends the series.

    Raises:
        ConfigurationError: `runs` is less than 1, or what `e2e` refuses.
        IncompleteError: a run left no verdict.
    """
    if runs < 1:
        raise ConfigurationError([f"RUNS={runs}; allowed: a whole number, at least 1"])
    apply(variables)
    verdicts: list[Verdict] = []
    code = ExitCode.OK
    for number in range(1, runs + 1):
        settings, plan = planned()
        print(f"run {number} of {runs}: {plan.run_id}")
        code = drive(settings, plan)
        verdict = load_recorded(settings.artifacts / plan.run_id)
        if verdict is None:
            raise IncompleteError(f"run {number} of {runs}, {plan.run_id}, left no verdict in {settings.artifacts}")
        verdicts.append(verdict)
        if code is ExitCode.INTERRUPTED:
            break
    print_series(verdicts)
    return code if code is ExitCode.INTERRUPTED else worst([verdict.exit_code for verdict in verdicts])


def worst(codes: Sequence[ExitCode]) -> ExitCode:
    """The code of a series: a failed verification over broken infrastructure over missing evidence."""
    return next(code for code in _WORST_FIRST if code in codes)
