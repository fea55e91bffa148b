"""Which engine answers, and what other clients need to reach the same one."""

from __future__ import annotations

import pytest

from runner.base.errors import InfrastructureError
from runner.ground.client import Docker
from runner.ground.engine import Engine, check_api, find
from tests.unit.ground.conftest import MISSING_RESULT, SERVER, FakeRun, context, failed, versions


def test_the_engine_on_the_default_socket_needs_nothing_more(fake: FakeRun) -> None:
    engine = find(Docker(run=fake)).engine
    assert engine is not None
    assert (engine.version, engine.api_version, engine.env, engine.builder) == ("20.10.24", "1.41", {}, "default")


def test_the_engine_of_another_context_is_named_for_the_sdk_which_reads_no_contexts(fake: FakeRun) -> None:
    fake.on("docker context inspect", context("rootless", "unix:///run/user/1000/docker.sock"))
    engine = find(Docker(run=fake)).engine
    assert engine is not None
    assert engine.env == {"DOCKER_HOST": "unix:///run/user/1000/docker.sock"}
    assert engine.builder == "default"


def test_a_context_with_certificates_is_left_to_the_command_line(fake: FakeRun) -> None:
    fake.on("docker context inspect", context("remote", "tcp://build:2376", tls=True))
    engine = find(Docker(run=fake)).engine
    assert engine is not None
    assert (engine.env, engine.builder) == ({}, "remote")


def test_no_answer_keeps_what_the_command_line_said(fake: FakeRun) -> None:
    fake.on("docker version", failed("Cannot connect to the Docker daemon. Is the docker daemon running?"))
    found = find(Docker(run=fake))
    assert found.engine is None
    assert not found.no_client
    assert found.said == "Cannot connect to the Docker daemon. Is the docker daemon running?"


def test_a_missing_command_is_told_apart_from_a_missing_engine(fake: FakeRun) -> None:
    fake.on("docker version", MISSING_RESULT)
    assert find(Docker(run=fake)).no_client


def test_words_that_are_no_json_are_no_engine(fake: FakeRun) -> None:
    fake.on("docker version", "flag provided but not defined")
    assert find(Docker(run=fake)).engine is None


@pytest.mark.parametrize(
    ("api", "ok"), [("1.41", True), ("1.50", True), ("2.0", True), ("1.40", False), ("1.9", False)]
)
def test_engines_older_than_20_10_are_refused(api: str, ok: bool) -> None:
    engine = Engine("x", api, "28", "default", "")
    if ok:
        check_api(engine)
        return
    with pytest.raises(InfrastructureError, match=r"speaks API .*1\.41"):
        check_api(engine)


def test_the_answer_may_hold_fields_nobody_knows(fake: FakeRun) -> None:
    fake.on("docker version", versions({**SERVER, "Novelty": "yes"}))
    assert find(Docker(run=fake)).engine is not None
