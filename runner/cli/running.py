"""Servers that already run are verified from this process, over the URLs that the plan holds. Nothing of Docker.

Their logs and their end belong to whoever started them; what is kept is what can be seen over HTTP.
"""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import orjson

from runner.base.errors import InfrastructureError
from runner.base.events import NoteEvent
from runner.base.terms import ExitCode
from runner.cli.host import here
from runner.cli.job import Run, write_environment, write_lease_ledger
from runner.cli.preflight import preflight
from runner.cli.stacks import ROOT
from runner.lane.verify import verify
from runner.stack.failure import ServiceFailure

_ASK_SECONDS = 10.0
_ASKED = {"engine": ("/server_info", "/get_server_info")}
_SESSION_ASKED = ("/health",)


def verify_running(run: Run) -> None:
    """Drive every planned cell against the servers of the plan's one lease."""
    (lease,) = run.plan.leases
    facts = {service: _say_of_itself(service, url) for service, url in lease.urls.items()}
    write_environment(run, {**here(ROOT), "targets": facts, "secrets_redacted_by_value": run.secrets})
    before = preflight(lease, run.directory, lease.urls, run.emit)
    try:
        code = asyncio.run(verify(run.plan, lease.family, run.directory, lease.urls, run.emit, preflight=before))
    except InfrastructureError as error:
        run.emit(NoteEvent(level="error", message=str(error)))
        write_lease_ledger(run, lease, ServiceFailure(service="runner", message=error.message))
        return
    interrupted = code is ExitCode.INTERRUPTED
    write_lease_ledger(run, lease, None, closed=not interrupted)
    if interrupted:
        raise KeyboardInterrupt


def _say_of_itself(service: str, url: str) -> dict[str, Any]:
    """URL and self-description of a server; what it does not say is left out, since nothing is decided from it."""
    for path in _ASKED.get(service, _SESSION_ASKED):
        try:
            reply = httpx.get(f"{url}{path}", timeout=_ASK_SECONDS, trust_env=False)
            if reply.status_code == httpx.codes.OK:
                return {"url": url, "asked": path, "answer": orjson.loads(reply.content)}
        except (httpx.HTTPError, orjson.JSONDecodeError) as error:
            return {"url": url, "asked": path, "error": f"{type(error).__name__}: {error}"}
    return {"url": url}
