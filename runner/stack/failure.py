"""What broke underneath, as seen: which service, how it ended, and the last lines that it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.base.errors import InfrastructureError


@dataclass(frozen=True)
class ServiceFailure:
    """Facts about one service that is not as it should be. `exit_code` is None while it runs."""

    service: str
    message: str
    exit_code: int | None = None
    oom_killed: bool | None = None
    log_tail: list[str] = field(default_factory=list)


class StackError(InfrastructureError):
    """The environment failed, not the verification. Shows the log's end, since that is where the cause is."""

    def __init__(self, failure: ServiceFailure, hint: str = "") -> None:
        self.failure = failure
        text = f"{failure.service}: {failure.message}"
        if failure.log_tail:
            tail = "\n".join(f"    | {line}" for line in failure.log_tail)
            text = f"{text}\n  last lines of {failure.service}:\n{tail}"
        super().__init__(text, hint)


class PortError(InfrastructureError):
    """A port that a session server was to be published on could not be had."""
