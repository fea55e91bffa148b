"""Several session servers of one version: who is driven where, and that it is the server that was meant."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runner.agents.session import ServiceError, SessionClient
from runner.base.errors import ConfigurationError
from runner.base.terms import ExitCode, Lane
from runner.lane.instances import Instances
from runner.lane.silence import why_silent
from runner.lane.verify import verify
from runner.ledger.paths import cell_ledger
from runner.ledger.reader import read_ledger
from runner.ledger.records import InfraRecord, SampleRecord, VerificationErrorRecord
from runner.ledger.writer import LedgerError
from runner.plan.model import PlannedCell
from runner.plan.workers import Worker, Workers, read_workers
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.faults import Fault, Kind
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, planned_cell, server_app
from tests.unit.lane.test_verify import planned

Servers = dict[str, list[Worker]]


@contextmanager
def running(*names: str, faults: Sequence[Fault] = ()) -> Iterator[list[str]]:
    """One v1 server for each instance id; yields their URLs."""
    with ExitStack() as stack:
        engine = stack.enter_context(served(build_engine(ScriptedEngine(MODEL, faults))))
        yield [stack.enter_context(served(server_app("v1", engine, instance_id=name))) for name in names]


def workers(urls: Sequence[str], *expected: str | None) -> Servers:
    listed = [
        Worker(name=f"session-v1-{number}", url=url, instance_id=instance)
        for number, (url, instance) in enumerate(zip(urls, expected or [None] * len(urls), strict=True), start=1)
    ]
    return {"session-v1": listed}


def spread(samples: int, over: int) -> PlannedCell:
    cell = planned_cell(samples=samples, cycles=1)
    seated = [sample.model_copy(update={"worker": sample.index % over}) for sample in cell.samples]
    return cell.model_copy(update={"samples": seated})


def drive(cell: PlannedCell, servers: Servers, artifacts: Path, stall: float = 30.0) -> tuple[ExitCode, list[Any]]:
    code = asyncio.run(
        verify(planned([cell], stall=stall), "qwen3", artifacts, {}, lambda event: None, workers=servers)
    )
    ledger = read_ledger(cell_ledger(artifacts, cell.id))
    assert ledger.problems == []
    ends = (SampleRecord, VerificationErrorRecord, InfraRecord)
    records = [record for record in ledger.records if isinstance(record, ends)]
    return code, sorted(records, key=lambda record: record.sample_index or 0)


def test_each_sample_is_driven_at_its_worker_and_says_so(tmp_path: Path) -> None:
    cell = spread(5, over=3)
    with running("one", "two", "three") as urls:
        code, records = drive(cell, workers(urls, "one", "two", "three"), tmp_path)
    assert code is ExitCode.OK
    assert [(record.worker, record.instance_id) for record in records] == [
        (0, "one"),
        (1, "two"),
        (2, "three"),
        (0, "one"),
        (1, "two"),
    ]
    assert Counter(record.instance_id for record in records) == {"one": 2, "two": 2, "three": 1}


def test_another_server_at_the_address_of_a_worker_is_infrastructure(tmp_path: Path) -> None:
    with running("one", "stale") as urls:
        code, records = drive(spread(2, over=2), workers(urls, "one", "two"), tmp_path)
    assert code is ExitCode.INFRASTRUCTURE
    assert all(isinstance(record, InfraRecord) for record in records)
    assert "answers as instance 'stale', and session-v1-2 was started as 'two'" in records[0].message
    assert records[0].service == "session-v1-2"


def test_two_workers_that_are_one_server_are_told(tmp_path: Path) -> None:
    with running("one", "one") as urls:
        code, records = drive(spread(2, over=2), workers(urls), tmp_path)
    assert code is ExitCode.INFRASTRUCTURE
    assert "both answer as instance 'one'" in records[0].message


def test_a_worker_that_is_replaced_while_its_session_lives_costs_that_sample(tmp_path: Path) -> None:
    """The second half of the session is answered by another process behind the same address."""
    answers = iter(["one", "one"])

    async def health(request: Any) -> JSONResponse:
        return JSONResponse({"status": "ok", "session_server_instance_id": next(answers, "another")})

    with running("one") as (url,):
        app = Starlette(routes=[Route("/health", health)], exception_handlers={404: _forward(url)})
        with served(app) as front:
            code, (record,) = drive(spread(1, over=1), workers([front]), tmp_path)
    assert code is ExitCode.INFRASTRUCTURE
    assert isinstance(record, InfraRecord)
    assert "was instance 'one' and is 'another' now" in record.message


def _forward(url: str) -> Any:
    async def forward(request: Any, error: Exception) -> Any:
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            body = await request.body()
            headers = {"content-type": "application/json"}
            reply = await http.request(request.method, request.url.path, content=body, headers=headers)
        media = reply.headers.get("content-type")
        return Response(reply.content, reply.status_code, media_type=media)

    return forward


def test_a_server_without_an_id_is_not_refused_for_it() -> None:
    instances = Instances()
    worker = Worker(name="session-v1", url="http://x")
    instances.check("session-v1", worker, None)
    instances.check("session-v1", worker, None)
    with pytest.raises(ServiceError, match="was instance None and is 'late' now"):
        instances.check("session-v1", worker, "late")


def test_the_same_id_in_both_versions_is_no_duplicate() -> None:
    instances = Instances()
    for service in ("session-v1", "session-v2"):
        instances.check(service, Worker(name=service, url="http://x"), "the host's name")


def test_a_plan_for_more_workers_than_there_are_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with running("one") as urls, pytest.raises(ConfigurationError, match=r"planned for 2 workers of session-v1"):
        drive(spread(2, over=2), workers(urls), tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_the_host_writes_about_workers_is_what_the_verifier_reads(tmp_path: Path) -> None:
    path = tmp_path / "workers.json"
    assert read_workers(path) is None
    written = Workers(services=workers(["http://a:8080", "http://b:8080"], "one", "two"))
    path.write_text(written.model_dump_json())
    assert read_workers(path) == written
    path.write_text(json.dumps({"services": {"session-v1": [{"name": "x"}]}}))
    with pytest.raises(ConfigurationError, match="does not say where the workers are"):
        read_workers(path)


def test_a_stall_over_an_engine_that_generates_nothing_is_infrastructure(tmp_path: Path) -> None:
    """The engine goes away under the turn that is waited for, and no connection breaks."""
    with running("one", faults=[Fault(Kind.HANG, turn=3, times=None)]) as (url,):

        async def ready(request: Any) -> JSONResponse:
            return JSONResponse({"status": "not ready", "reason": "no answer"}, status_code=503)

        app = Starlette(routes=[Route("/ready", ready)], exception_handlers={404: _forward(url)})
        with served(app) as front:
            code, (record,) = drive(spread(1, over=1), workers([front]), tmp_path, stall=1.0)
    assert code is ExitCode.INFRASTRUCTURE
    assert isinstance(record, InfraRecord)
    assert record.service == "engine"
    assert "nothing advanced for 1 s: session-v1-1 answers 503 to /ready" in record.message


def test_a_stall_while_everything_still_works_is_a_failed_check(tmp_path: Path) -> None:
    with running("one", faults=[Fault(Kind.HANG, turn=3, times=None)]) as urls:
        code, (record,) = drive(spread(1, over=1), workers(urls), tmp_path, stall=1.0)
    assert code is ExitCode.VERIFICATION_FAILED
    assert isinstance(record, VerificationErrorRecord)
    assert record.verification_error.stage == "stall"


def silent(base: str) -> ServiceError | None:
    async def ask() -> ServiceError | None:
        async with httpx.AsyncClient(base_url=base, timeout=httpx.Timeout(None, connect=1.0)) as http:
            return await why_silent([SessionClient(http, Lane.V1_OPENAI.service)])

    return asyncio.run(ask())


def test_a_server_that_refuses_connections_is_named_as_unreachable() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        error = silent(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert error is not None
    assert error.service == "session-v1"
    assert "cannot be reached (/health: ConnectError" in error.message


def test_a_server_that_takes_connections_and_says_nothing_is_named_as_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.lane.silence.HEALTH_SECONDS", 0.2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        error = silent(f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert error is not None
    assert "session-v1 did not answer /health within 0.2 s" in error.message


def test_a_server_that_works_is_not_blamed() -> None:
    with running("one") as (url,):
        assert silent(url) is None


def test_a_full_disk_is_infrastructure_and_no_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("runner.lane.snapshot.SessionFile.save", full)
    with running("one") as urls:
        code, (record,) = drive(spread(1, over=1), workers(urls), tmp_path)
    assert code is ExitCode.INFRASTRUCTURE
    assert isinstance(record, InfraRecord)
    assert record.service == "runner"
    assert "No space left on device" in record.message


def test_a_ledger_that_cannot_be_written_ends_the_verifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if b'"kind":"sample"' in data:
            raise OSError(28, "No space left on device")
        return write(descriptor, data)

    monkeypatch.setattr("runner.ledger.writer.os.write", full)
    with running("one") as urls, pytest.raises(LedgerError, match="No space left"):
        drive(spread(1, over=1), workers(urls), tmp_path)
