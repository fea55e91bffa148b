"""The exception tree. Each leaf carries what a person needs and the exit code that the process ends with.

RunnerError
├── ConfigurationError      wrong usage or configuration, found before anything starts (exit 2)
├── InfrastructureError     container, engine, Docker, GPU (exit 3)
├── IncompleteError         evidence is missing (exit 4)
└── VerificationError       a check of the verifier did not hold (exit 1)
    └── ModelIncompleteError    the model kept stopping early; not a fault of the session server
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.base.terms import ExitCode


class RunnerError(Exception):
    """Base of all errors that are meant for people."""

    exit_code: ExitCode = ExitCode.VERIFICATION_FAILED


class ConfigurationError(RunnerError):
    """All problems of one configuration in one error: nothing was started when it is raised."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        count = len(self.problems)
        super().__init__(f"{count} configuration problem{'s' if count != 1 else ''}; nothing was started:\n{lines}")


class InfrastructureError(RunnerError):
    """Something under the verification broke. `hint` is the line that mends it or shows more, or empty."""

    exit_code = ExitCode.INFRASTRUCTURE

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(f"{message}\n  -> {hint}" if hint else message)


class IncompleteError(RunnerError):
    """Evidence that the plan asks for is not there."""

    exit_code = ExitCode.INCOMPLETE


class VerificationError(RunnerError):
    """A check did not hold. `stage` names where: it is written to the ledger before this is raised again."""

    exit_code = ExitCode.VERIFICATION_FAILED

    def __init__(self, stage: str, message: str) -> None:
        self.stage = stage
        self.message = message
        super().__init__(f"[{stage}] {message}")


class ModelIncompleteError(VerificationError):
    """The model kept stopping early (truncated or empty replies) until the retries were used up."""
