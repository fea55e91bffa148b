"""The one constructor of the args that a `miles` session server is started with.

Every field that the server reads is here, so that no place that starts one makes a namespace by hand and forgets the
newest. A field has a default only where the server's own source falls back to the same value; what must not fall
back in silence (without `hf_checkpoint` the server starts and has no routes) has none. Which fields a server reads is
not believed but checked: `python -m runner contract args` compares this class with the server's source.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from runner.base.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class SessionServerArgs:
    """What a session server reads, under the server's own names."""

    hf_checkpoint: str
    """Directory with tokenizer, chat template and config.json."""
    tito_model: str
    """Family whose joining rules are used, e.g. `qwen3`."""
    session_server_ip: str
    """Address to bind."""
    session_server_port: int
    """Port to bind."""
    session_server_instance_id: str
    """Name of this process in /health."""
    tito_allowed_append_roles: list[str]
    """Roles that a request may append to what was sampled. The server's own fallback is a tokenizer default."""
    miles_router_timeout: float = 600.0
    """Seconds for one request to the engine."""
    chat_template_path: str | None = None
    """Template that replaces the checkpoint's."""
    apply_chat_template_kwargs: dict[str, Any] | None = None
    """Arguments of the chat template."""
    use_rollout_routing_replay: bool = False
    """Ask the engine for the routed experts of every token."""


def session_server_args(values: Mapping[str, object]) -> SessionServerArgs:
    """The args made from `values`. Raises ConfigurationError with every missing and every unknown field, by name."""
    known = {one.name: one for one in fields(SessionServerArgs)}
    problems = []
    for name, one in known.items():
        required = one.default is MISSING and one.default_factory is MISSING
        if required and name not in values:
            problems.append(f"session-server args: {name} is missing; the server reads it")
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            problems.append(f"session-server args: {name} is no field that the server reads{meant}")
    if problems:
        raise ConfigurationError(problems)
    given: dict[str, Any] = dict(values)
    return SessionServerArgs(**given)
