"""Real SGLang on CPU. One stack is brought up for all tests that talk to it, by the code that a run uses."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import docker
import pytest

from runner.base.settings import Settings
from runner.cli.stacks import IMAGES, ROOT, compose_variables, image_references, project_name
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.plan.build import build_plan, new_run_id
from runner.plan.families import load_families
from runner.report.console import line_consumer
from runner.stack import lock
from runner.stack.lease import Budgets, Lease
from runner.stack.project import Project, write_env_file
from runner.stack.redact import Redactor


@dataclass(frozen=True)
class Stack:
    """Base URLs on loopback."""

    engine: str
    session_v1: str
    session_v2: str
    family: str = "qwen3"


@pytest.fixture(scope="session")
def images() -> dict[str, str]:
    """The project's images, built where missing; this process's Docker settings are those of a run from here on."""
    ground = prepare(Site.here(ROOT), IMAGES, line_consumer())
    os.environ.update(ground.env)
    return ground.images


@pytest.fixture(scope="session")
def stack(images: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Engine and both session servers; taken down at the end of the session, whatever happens in it."""
    directory = tmp_path_factory.mktemp("stack")
    now = datetime.now(UTC)
    plan = build_plan(Settings(family="qwen3"), load_families(), run_id=new_run_id(now), now=now, versions={})
    (planned,) = plan.leases
    client = docker.from_env()
    with lock.held(plan.run_id) as lock_file:
        variables = compose_variables(plan, planned, image_references(Settings(), images), lock=lock_file, keep=False)
        env_file = directory / "compose.env"
        write_env_file(env_file, variables)
        lease = Lease(
            client=client,
            project=Project(project_name(plan.run_id, planned.family), ROOT, env_file),
            run_id=plan.run_id,
            family=planned.family,
            run_dir=directory,
            budgets=Budgets(planned.ready_timeout, plan.timeout, plan.stall_timeout),
            redact=Redactor([]),
            emit=line_consumer(),
        )
        try:
            lease.start()
            urls = dict(url.split("=", 1) for url in lease.urls())
            yield Stack(urls["engine"], urls["session-v1"], urls["session-v2"])
        finally:
            lease.finish()
            client.close()


def run_module(*arguments: str, path: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python -m <arguments>` in a clean environment of the caller's variables."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(path), "CI": "1", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def pytest_report_header() -> str:
    """What a reader of the log wants to know of timings."""
    return f"host: {platform.machine()}, {os.cpu_count()} cores"
