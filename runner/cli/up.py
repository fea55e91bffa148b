"""`up` and `down`: the environment for a person, with the same Compose project, images and readiness as a run."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime

from runner.base.errors import ConfigurationError
from runner.base.interrupt import finishing, first_signal_interrupts
from runner.base.settings import EngineKind
from runner.base.terms import ExitCode
from runner.cli.gpu import cache_dir, chat_template, devices_for, have_image, preflight
from runner.cli.place import writable
from runner.cli.stacks import ROOT, compose_variables, image_references, needed_images, project_name
from runner.cli.sweep import connect
from runner.cli.variables import apply
from runner.ground.prepare import prepare
from runner.ground.site import Site
from runner.plan.build import new_run_id, prepare_plan
from runner.report.console import line_consumer
from runner.stack import lock
from runner.stack.lease import Budgets, Lease
from runner.stack.override import OVERRIDE_NAME, write_override
from runner.stack.project import Project, write_env_file
from runner.stack.redact import Redactor, secret_values
from runner.stack.services import SESSION_SERVICES
from runner.stack.sweep import find, remove


def up(variables: Sequence[str]) -> ExitCode:
    """Start one lease, wait until it is ready, print how to talk to it, and leave it running."""
    apply(variables)
    now = datetime.now(UTC)
    settings, _, plan = prepare_plan(run_id=new_run_id(now), now=now, versions={})
    if len(plan.leases) != 1:
        families = ", ".join(lease.family for lease in plan.leases) or "none that can run here"
        raise ConfigurationError([f"one family is started at a time, and FAMILY gives {families}"])
    (planned,) = plan.leases
    gpu = planned.engine is EngineKind.GPU
    if gpu:
        plan = preflight(settings, plan)
        (planned,) = plan.leases
    writable("ARTIFACTS", settings.artifacts)
    emit = line_consumer()
    directory = settings.artifacts.resolve() / plan.run_id
    with (
        first_signal_interrupts(),
        lock.held(plan.run_id) as lock_file,
        devices_for(settings, planned) as devices,  # held until the engine holds their memory
    ):
        site = Site.here(ROOT, base_image=settings.base_image, engine=planned.engine)
        ground = prepare(site, needed_images(settings), emit)
        os.environ.update(ground.env)
        images = image_references(settings, ground.images)
        env_file = directory / "leases" / planned.family / "compose.env"
        env_file.parent.mkdir(parents=True)
        write_env_file(env_file, compose_variables(plan, planned, images, lock=lock_file, keep=True))
        client = connect()
        overrides = []
        if gpu:
            have_image(client, images["engine"], emit)
            overrides = [env_file.with_name(OVERRIDE_NAME)]
            write_override(overrides[0], planned, devices, cache_dir(settings), chat_template(planned))
        lease = Lease(
            client=client,
            project=Project(project_name(plan.run_id, planned.family), ROOT, env_file, overrides),
            run_id=plan.run_id,
            family=planned.family,
            run_dir=directory,
            budgets=Budgets(planned.ready_timeout, plan.timeout, plan.stall_timeout),
            redact=Redactor(secret_values(os.environ)),
            emit=emit,
            workers=planned.workers,
            ports=planned.ports,
        )
        try:
            lease.start()
        except BaseException:
            with finishing():
                lease.finish()
            raise
        urls = dict(url.split("=", 1) for url in lease.urls())
        client.close()
    print("\n".join(_how_to_talk(urls, planned.family)))
    return ExitCode.OK


def _how_to_talk(urls: dict[str, str], family: str) -> list[str]:
    question = {"role": "user", "content": "What is the weather in Beijing?"}
    body = json.dumps({"model": family, "messages": [question]})
    lines = [f"{name:<{max(map(len, urls))}} {url}" for name, url in urls.items()]
    v1, v2 = (next(name for name in urls if name.startswith(service)) for service in SESSION_SERVICES)
    for name in (v1, v2):
        base = urls[name]
        lines += [
            "",
            f"# one turn over the OpenAI route of {name}, then what the server recorded",
            f"SESSION=$(curl -s -X POST {base}/sessions | sed 's/.*:\"\\(.*\\)\".*/\\1/')",
            f"curl -s {base}/sessions/$SESSION/v1/chat/completions -H 'content-type: application/json' "
            f"-d {shlex.quote(body)}",
            f"curl -s {base}/sessions/$SESSION",
        ]
    message = json.dumps({"model": family, "max_tokens": 200, "messages": [question]})
    lines += [
        "",
        f"# the same question over the Anthropic route of {v2}",
        f"SESSION=$(curl -s -X POST {urls[v2]}/sessions | sed 's/.*:\"\\(.*\\)\".*/\\1/')",
        f"curl -s {urls[v2]}/sessions/$SESSION/v1/messages -H 'content-type: application/json' "
        f"-d {shlex.quote(message)}",
    ]
    return [*lines, "", "make down   # removes it"]


def down() -> ExitCode:
    """Remove every kept environment of this Docker engine."""
    client = connect()
    try:
        kept = [run for run in find(client) if run.keep]
        for run in kept:
            problems = remove(client, run)
            print(f"removed {run.run_id}: {run.counts}" if not problems else f"{run.run_id}: {'; '.join(problems)}")
    finally:
        client.close()
    if not kept:
        print("no kept environment is running")
    return ExitCode.OK
