"""Prometheus metrics of one process. A registry of its own, so that several servers can live in one test process."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counters of turns and tokens, latencies, and what is alive."""

    def __init__(self, *, sessions: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.turns = Counter(
            "session_server_turns",
            "Turns by outcome: recorded, refused by the engine, or an error status.",
            ["outcome"],
            registry=self.registry,
        )
        self.in_flight = Gauge("session_server_turns_in_flight", "Turns being generated.", registry=self.registry)
        self.prompt_tokens = Counter(
            "session_server_prompt_tokens", "Prompt tokens of recorded turns.", registry=self.registry
        )
        self.completion_tokens = Counter(
            "session_server_completion_tokens", "Sampled tokens of recorded turns.", registry=self.registry
        )
        self.turn_seconds = Histogram(
            "session_server_turn_seconds", "Time of a turn, engine included.", buckets=_SECONDS, registry=self.registry
        )
        self.engine_seconds = Histogram(
            "session_server_engine_seconds",
            "Time that a turn waited for the engine.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        Gauge("session_server_sessions", "Sessions alive.", registry=self.registry).set_function(
            lambda: float(sessions())
        )
        # made once: looking a label up costs as much as counting
        self.recorded = self.turns.labels("recorded")

    def text(self) -> tuple[bytes, str]:
        """The exposition and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
