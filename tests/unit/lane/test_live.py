"""The checks that ask the engine, through a whole verification."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from runner.base.terms import ExitCode
from runner.ledger.records import InfraRecord, SampleRecord, Severity
from tests.scripted_engine.app import build as build_engine
from tests.scripted_engine.engine import ScriptedEngine
from tests.scripted_engine.serving import served
from tests.unit.agents.bench import MODEL, planned_cell
from tests.unit.lane.test_verify import environment, planned, run


def findings(record: Any) -> list[tuple[str, str, str]]:
    assert isinstance(record, SampleRecord)
    return [(f.check, f.type, f.severity.value) for f in record.findings if f.check in ("parity", "scoring")]


@pytest.mark.parametrize(
    ("temperature", "expected"), [(1.0, []), (0.7, [("scoring", "ids_only", Severity.NOTE.value)])]
)
def test_one_sample_of_a_cell_is_scored(
    tmp_path: Path, temperature: float, expected: list[tuple[str, str, str]]
) -> None:
    cell = planned_cell(samples=2).model_copy(update={"temperature": temperature})
    with environment("v1") as (engine, urls), served(build_engine(engine)) as engine_url:
        result = run(planned([cell]), {**urls, "engine": engine_url}, tmp_path)
    first, second = result.terminals(cell)
    not_told = ("parity", "not_told", Severity.NOTE.value)
    assert findings(first) == [not_told, *expected], "the scripted engine has no template to render with"
    assert findings(second) == []
    assert result.code is ExitCode.OK


def answering(change: Any) -> Any:
    """The scripted engine with altered scores."""
    app = build_engine(ScriptedEngine(MODEL))

    async def altered(scope: Any, receive: Any, send: Any) -> None:
        async def changed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [item for item in message["headers"] if item[0] != b"content-length"]
            elif message["type"] == "http.response.body" and scope["path"] == "/generate":
                body = orjson.loads(message["body"])
                change(body)
                message = {**message, "body": orjson.dumps(body)}
            await send(message)

        await app(scope, receive, changed)

    return altered


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda body: body["meta_info"]["input_token_logprobs"][9].__setitem__(1, 1), ("scoring", "ids", "hard")),
        (
            lambda body: body["meta_info"]["input_token_logprobs"][9].__setitem__(0, -9.0),
            ("scoring", "logprobs", "hard"),
        ),
        (lambda body: body["meta_info"].pop("input_token_logprobs"), ("scoring", "refused", "hard")),
    ],
)
def test_scores_that_do_not_fit_fail_the_sample(tmp_path: Path, change: Any, expected: tuple[str, str, str]) -> None:
    cell = planned_cell().model_copy(update={"temperature": 1.0})
    with environment("v1") as (_, urls), served(answering(change)) as engine_url:
        result = run(planned([cell]), {**urls, "engine": engine_url}, tmp_path)
    (record,) = result.terminals(cell)
    assert expected in findings(record)
    assert result.code is ExitCode.VERIFICATION_FAILED


def test_an_engine_that_is_gone_by_then_is_infrastructure(tmp_path: Path) -> None:
    cell = planned_cell()
    with environment("v1") as (_, urls):
        result = run(planned([cell]), {**urls, "engine": "http://127.0.0.1:9"}, tmp_path)
    (record,) = result.terminals(cell)
    assert isinstance(record, InfraRecord)
    assert record.service == "engine"
