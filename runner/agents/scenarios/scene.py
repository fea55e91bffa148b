"""What a script of a scenario gets to drive one session with.

Only things: clients, settings, where to write. What is said and in which order is the script's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from runner.agents.records import Health
from runner.agents.session import SessionClient
from runner.agents.transcript import Transcript
from runner.agents.turns import DriveSettings, OnAttempt
from runner.base.events import Emit


@dataclass(frozen=True)
class Scene:
    """One sample on its lane's server. The session `transcript.session_id` is open when a script begins.

    `peers` are clients of all session servers of the lease that are known, by service (`session-v1`, `session-v2`),
    the lane's own among them; a session that a script opens there, it closes.
    """

    client: SessionClient
    health: Health
    settings: DriveSettings
    transcript: Transcript
    emit: Emit
    on_attempt: OnAttempt
    peers: Mapping[str, SessionClient]

    @property
    def session(self) -> str:
        """Id of the sample's session."""
        return self.transcript.session_id

    def note(self, event: str) -> None:
        """Write down a driver event; the gate asks for those that the plan lists."""
        self.transcript.driver_events.append(event)


Drive = Callable[[Scene], Awaitable[None]]
"""A script. Raises what the agents raise; see `runner.agents.openai.OpenAIAgent.drive`."""
