"""`verify-index`: what the runner container of a Kubernetes pod does. One index is one lease, and a run of its own.

The servers beside it in the pod are servers that already run: it is driven and judged as such, with the plan of its
index, which is one shard of the whole. `merge` makes one verdict of all of them.
"""

from __future__ import annotations

from pathlib import Path

from runner.base.errors import ConfigurationError
from runner.base.reading import load_settings
from runner.base.settings import EngineKind
from runner.base.terms import ExitCode
from runner.cli.job import conduct
from runner.cli.running import verify_running
from runner.cli.weights import snapshot
from runner.plan.model import Plan
from runner.stack.manifest import plan_name
from runner.stack.override import CACHE
from runner.verdict.artifacts import read_plan


def verify_index(plans: Path, index: int, artifacts: Path, cache: Path = Path(CACHE)) -> ExitCode:
    """Drive the lease of `index` and write its run below `artifacts`; returns the exit code of its verdict.

    `plans` is the directory with one plan per index; `cache` is where the model cache of a GPU lease is mounted.

    Raises:
        ConfigurationError: there is no plan of this index, or it holds more than one lease.
        InfrastructureError: the model cache lacks the model.
    """
    path = plans / plan_name(index)
    plan = read_plan(path)
    if len(plan.leases) != 1:
        raise ConfigurationError([f"{path} holds {len(plan.leases)} leases; the plan of an index holds one"])
    settings = load_settings({"artifacts": artifacts})
    return conduct(settings, _placed(plan, cache), verify_running)


def _placed(plan: Plan, cache: Path) -> Plan:
    """The plan with the place of the tokenizer, which for a GPU lease is found in the model cache."""
    (lease,) = plan.leases
    if lease.engine is not EngineKind.GPU or lease.tokenizer != lease.model:
        return plan
    place = cache / snapshot(cache, lease.model).relative_to(CACHE)
    return plan.model_copy(update={"leases": [lease.model_copy(update={"tokenizer": str(place)})]})
