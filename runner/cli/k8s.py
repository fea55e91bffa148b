"""`k8s`: the plan as Kubernetes objects, one index per lease. Writes text and touches no cluster.

Images are named as this checkout would build them, under the registry that the cluster pulls from. Plans are those of
`SHARD=i/n` with one lease each, so that `merge` takes what the pods leave.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runner import __version__
from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.settings import EngineKind, Settings
from runner.base.terms import ExitCode
from runner.cli.place import writing
from runner.cli.stacks import ROOT, compose_variables, image_references, needed_images
from runner.cli.variables import apply
from runner.cli.weights import chat_template
from runner.ground import base, images
from runner.ground.base import Base, Origin
from runner.ground.client import Docker
from runner.ground.recipe import RECIPES
from runner.ground.site import IMAGE_PREFIX, Site
from runner.plan.build import new_run_id, prepare_plan
from runner.plan.model import Plan
from runner.stack.definition import services
from runner.stack.manifest import ENGINE, RUNNER, SESSIONS, Index, Options, manifest, to_text, urls

_RECIPES = {RUNNER: "runner", **dict.fromkeys(SESSIONS, "session-server")}
_STARTED = re.compile(r"^(ENTRYPOINT|CMD) (\[.*\])$", re.MULTILINE)


@dataclass(frozen=True)
class Cluster:
    """What the command line says of the cluster; names, empty for none."""

    registry: str = ""
    artifacts_claim: str = ""
    cache_claim: str = ""
    parallelism: int = 0
    pull_secrets: Sequence[str] = ()


def k8s(variables: Sequence[str], cluster: Cluster, out: Path | None) -> ExitCode:
    """Write the manifest of the plan that these variables give to `out`, or to standard output.

    Raises ConfigurationError with every problem of the variables, before anything is written; also where `out` cannot
    be.
    """
    apply(variables)
    now = datetime.now(UTC)
    settings, plans = shards(now)
    text = to_text(written(settings, plans, cluster))
    if out is None:
        print(text, end="")
        return ExitCode.OK
    with writing("--out", out):
        out.write_text(text, encoding="utf-8")
    listed = "\n".join(
        f"  index {number}: {plan.leases[0].family}, run {plan.run_id}" for number, plan in enumerate(plans)
    )
    print(f"{out}: {len(plans)} leases\n{listed}\nkubectl apply -f {out}")
    return ExitCode.OK


def shards(now: datetime) -> tuple[Settings, list[Plan]]:
    """The settings, and the plan as shards of one lease each, in the order in which they are counted."""
    versions = {"tito-e2e": __version__, "python": platform.python_version()}
    run_id = new_run_id(now)
    settings, _, whole = prepare_plan(run_id=run_id, now=now, versions=versions)
    problems = [
        f"{name} is not for k8s: {why}"
        for name, why in (("SHARD", "every lease is a shard there"), ("WORKERS", "a pod has one of each version"))
        if getattr(settings, name.lower()) != type(settings).model_fields[name.lower()].default
    ]
    if settings.targets:
        problems.append("k8s starts the servers in the cluster: unset ENGINE_URL, SESSION_V1_URL, SESSION_V2_URL")
    if problems:
        raise ConfigurationError(problems)
    count = len(whole.leases)
    plans = []
    for index in range(count):
        _, _, plan = prepare_plan(
            {"shard": f"{index + 1}/{count}"}, run_id=f"{run_id}-{index}", now=now, versions=versions
        )
        plans.append(plan)
    return settings, plans


def written(settings: Settings, plans: Sequence[Plan], cluster: Cluster) -> dict[str, object]:
    """The manifest of these plans. Raises as `manifest` does, and where an image's entry point cannot be read."""
    references = _images(settings, cluster.registry)
    indexes = []
    for plan in plans:
        (lease,) = plan.leases
        variables = compose_variables(plan, lease, references, lock=Path(), keep=False)
        said = services(ROOT, variables)
        running = plan.model_copy(update={"leases": [lease.model_copy(update={"urls": urls(said)})]})
        template = chat_template(lease) if lease.engine is EngineKind.GPU else None
        indexes.append(Index(running, said, template))
    options = Options(
        name=f"tito-{plans[0].run_id.rpartition('-')[0]}",
        entrypoints=entrypoints(engine_recipe(settings.engine)),
        artifacts_claim=cluster.artifacts_claim,
        cache_claim=cluster.cache_claim,
        parallelism=cluster.parallelism,
        pull_secrets=cluster.pull_secrets,
    )
    return manifest(options, indexes)


def engine_recipe(engine: EngineKind) -> str:
    """The image whose way of starting counts for a server image of the user's own as well."""
    return "scripted-engine" if engine is EngineKind.SCRIPTED else "engine-cpu"


def entrypoints(engine: str) -> dict[str, list[str]]:
    """Service -> what its image starts, as its Dockerfile says it; `engine` names the engine's image."""
    recipes = {ENGINE: engine, **_RECIPES}
    return {service: _started(ROOT / RECIPES[name].dockerfile) for service, name in recipes.items()}


def _started(dockerfile: Path) -> list[str]:
    try:
        found = dict(_STARTED.findall(dockerfile.read_text(encoding="utf-8")))
    except OSError as error:
        raise InfrastructureError(f"{dockerfile} cannot be read: {error}") from error
    if not found:
        raise InfrastructureError(f"{dockerfile} says in no JSON form what is started")
    words: list[str] = json.loads(found.get("ENTRYPOINT") or found["CMD"])
    return words


def _images(settings: Settings, registry: str) -> dict[str, str]:
    """Kind -> reference that the cluster pulls; what the user names himself is taken as it is."""
    site = Site.here(ROOT, base_image=settings.base_image)
    foundation = base.find(site, Docker()) or Base(base.OFFICIAL, Origin.PULLED, base.OFFICIAL)
    tags: Mapping[str, str] = images.tags(needed_images(settings), site, foundation)
    if registry:
        tags = {name: f"{registry.rstrip('/')}/{tag.removeprefix(f'{IMAGE_PREFIX}/')}" for name, tag in tags.items()}
    return image_references(settings, tags)
