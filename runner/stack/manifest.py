"""The Kubernetes form of a run: an Indexed Job in which one index is one lease.

A pod is what a Compose project is: engine and session servers as sidecars, started in order and waited for, the runner
as the container whose end is the end. Images, users, limits, health checks and environment are those of compose.yaml
(`definition`) and of the GPU override; what Kubernetes says in other words is said in other words here, and nothing
else. A pod has one network: the services have their Compose names there, and ports of their own.

All pods of a Job have one shape, and leases differ: what differs (environment, arguments, plan, template) lies in a
ConfigMap by index. Leases that need another number of GPUs are another Job.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.settings import EngineKind
from runner.plan.model import Plan, PlannedLease
from runner.stack import labels, override
from runner.stack.definition import Service, size

Object = dict[str, Any]

FILES = "/plan"
"""Where a pod sees the files of all indexes."""

ENGINE, RUNNER = "engine", "runner"
SESSIONS = ("session-v1", "session-v2")
GPU = "nvidia.com/gpu"

_INDEX = "JOB_COMPLETION_INDEX"
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_LIMIT = 1_000_000
"""Bytes that a ConfigMap may hold, with a margin."""

_GRACE = 600
"""Seconds for pulling images, beside the budgets of the plan."""


@dataclass(frozen=True)
class Index:
    """One lease: a plan that holds it alone, the services as compose.yaml has them for it, its fixed chat template."""

    plan: Plan
    services: Mapping[str, Service]
    template: str | None = None

    @property
    def lease(self) -> PlannedLease:
        """The lease."""
        return self.plan.leases[0]


@dataclass(frozen=True)
class Options:
    """What the cluster adds. `entrypoints` are those of the images, by service; claims are names, empty for none."""

    name: str
    entrypoints: Mapping[str, Sequence[str]]
    artifacts_claim: str = ""
    cache_claim: str = ""
    parallelism: int = 0
    """Leases at the same time, 0 for all."""
    pull_secrets: Sequence[str] = field(default=())


def plan_name(number: int) -> str:
    """The file that holds the plan of an index."""
    return f"plan-{number}.json"


def ports(services: Mapping[str, Service]) -> dict[str, int]:
    """The port of each server inside the pod: its own, or the next that none before it has."""
    taken: dict[str, int] = {}
    for name in (ENGINE, *SESSIONS):
        port = services[name].port
        while port in taken.values():
            port += 1
        taken[name] = port
    return taken


def urls(services: Mapping[str, Service]) -> dict[str, str]:
    """Service -> base URL inside the pod."""
    return {name: f"http://{name}:{port}" for name, port in ports(services).items()}


def manifest(options: Options, indexes: Sequence[Index]) -> Object:
    """A List of one ConfigMap and one Job per number of GPUs.

    Raises:
        ConfigurationError: a GPU lease without a model cache, or more than a ConfigMap can hold.
        InfrastructureError: compose.yaml says something that has no Kubernetes form.
    """
    if any(index.lease.engine is EngineKind.GPU for index in indexes) and not options.cache_claim:
        raise ConfigurationError(["ENGINE=gpu needs the claim that holds the model cache: --model-cache NAME"])
    shapes: dict[int, list[Index]] = {}
    for index in indexes:
        shapes.setdefault(index.lease.gpus, []).append(index)
    items: list[Object] = []
    for gpus, mine in shapes.items():
        name = f"{options.name}-gpu{gpus}" if gpus else options.name
        items += [_files(name, mine, options), _job(name, mine, options)]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _labels(index: Index) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "tito-e2e",
        labels.RUN: index.plan.run_id.rpartition("-")[0],
    }


def _files(name: str, indexes: Sequence[Index], options: Options) -> Object:
    data: dict[str, str] = {}
    for number, index in enumerate(indexes):
        data[plan_name(number)] = index.plan.model_dump_json(indent=1) + "\n"
        if index.template is not None:
            data[f"chat_template-{number}.jinja"] = index.template
        for service in (ENGINE, *SESSIONS):
            data[f"{service}-{number}.sh"] = _script(service, number, index, options)
    held = sum(len(key) + len(value.encode()) for key, value in data.items())
    if held > _LIMIT:
        raise ConfigurationError(
            [f"the files of {len(indexes)} leases are {held} bytes, and a ConfigMap holds {_LIMIT}; name fewer FAMILY"]
        )
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": _labels(indexes[0])},
        "immutable": True,
        "data": data,
    }


def _script(service: str, number: int, index: Index, options: Options) -> str:
    """How this service of this lease is started: its environment, then the entry point of its image."""
    lease, said = index.lease, index.services[service]
    environment = dict(said.environment)
    command = [*options.entrypoints[service], *said.command]
    lines = []
    if service == ENGINE and lease.engine is EngineKind.GPU:
        template = f"{FILES}/chat_template-{number}.jinja" if index.template is not None else ""
        gpu = _override(index)
        environment |= gpu["environment"]
        command = [*gpu["entrypoint"], *override.engine_command(lease, template=template)]
    if service in SESSIONS:
        environment["SESSION_SERVER_PORT"] = str(ports(index.services)[service])
        lines.append(f'export SESSION_SERVER_INSTANCE_ID="$HOSTNAME-{service}"')
        if lease.engine is EngineKind.GPU:
            place = f"{override.CACHE}/hub/models--{lease.model.replace('/', '--')}"
            lines.append(f'export SESSION_SERVER_TOKENIZER_PATH="{place}/snapshots/$(cat {place}/refs/main)"')
            environment.pop("SESSION_SERVER_TOKENIZER_PATH", None)
    given = [f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items())]
    return "\n".join(["#!/bin/sh", "set -e", *given, *lines, f"exec {shlex.join(command)}"]) + "\n"


def _override(index: Index) -> Object:
    """The engine's part of the GPU override; which devices it gets is the cluster's choice."""
    lease = index.lease
    made = override.override(lease, [str(number) for number in range(lease.gpus)], Path(override.CACHE))
    engine: Object = made["services"]["engine"]
    return engine


def _job(name: str, indexes: Sequence[Index], options: Options) -> Object:
    first = indexes[0]
    parallel = min(options.parallelism or len(indexes), len(indexes))
    seconds = max(index.lease.ready_timeout + index.plan.timeout for index in indexes) + _GRACE
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": _labels(first)},
        "spec": {
            "completionMode": "Indexed",
            "completions": len(indexes),
            "parallelism": parallel,
            # a lease that failed is a result; it neither ends the others nor is it tried until it passes
            "backoffLimitPerIndex": 0,
            "activeDeadlineSeconds": math.ceil(seconds) * math.ceil(len(indexes) / parallel),
            "template": {"metadata": {"labels": _labels(first)}, "spec": _pod(name, indexes, options)},
        },
    }


def _pod(name: str, indexes: Sequence[Index], options: Options) -> Object:
    first = indexes[0]
    gpu = first.lease.engine is EngineKind.GPU
    services = first.services
    user = services[RUNNER].user
    spec: Object = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "hostAliases": [{"ip": "127.0.0.1", "hostnames": [ENGINE, *SESSIONS]}],
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": user[1],
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": math.ceil(max(service.stop_grace_period for service in services.values())),
        "initContainers": [
            *([] if gpu else [_models(services[ENGINE])]),
            *(_sidecar(service, indexes) for service in (ENGINE, *SESSIONS)),
        ],
        "containers": [_runner(services[RUNNER], options, gpu=gpu)],
        "volumes": [
            {"name": "files", "configMap": {"name": name}},
            {"name": "artifacts", **_claim_or_scratch(options.artifacts_claim)},
            {"name": "cache", "persistentVolumeClaim": {"claimName": options.cache_claim, "readOnly": True}}
            if gpu
            else {"name": "models", "emptyDir": {}},
            *(volume for name in (ENGINE, *SESSIONS, RUNNER) for volume in _scratch(name, services[name])),
            {"name": "shared-memory", "emptyDir": _in_memory(_shared_memory(first))},
        ],
    }
    if options.pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret} for secret in options.pull_secrets]
    return spec


def _claim_or_scratch(claim: str) -> Object:
    return {"persistentVolumeClaim": {"claimName": claim}} if claim else {"emptyDir": {}}


def _shared_memory(index: Index) -> int:
    if index.lease.engine is EngineKind.GPU:
        return size(_override(index)["shm_size"])
    return index.services[ENGINE].shm_size


def _models(engine: Service) -> Object:
    """Fills the models volume from the engine image, as Docker does with a named volume."""
    return {
        "name": "models",
        "image": engine.image,
        "command": ["cp", "-r", "/models/.", "/filled/"],
        "securityContext": _security("models", engine),
        "volumeMounts": [{"name": "models", "mountPath": "/filled"}],
    }


def _sidecar(name: str, indexes: Sequence[Index]) -> Object:
    first = indexes[0]
    service, gpu = first.services[name], first.lease.engine is EngineKind.GPU
    if service.healthcheck is None:
        raise InfrastructureError(f"{name} has no health check in compose.yaml, so nothing could wait for it")
    ready = max(index.lease.ready_timeout for index in indexes)
    container = {
        **_container(name, service, gpu=gpu),
        "restartPolicy": "Always",
        "command": ["/bin/sh", f"{FILES}/{name}-$({_INDEX}).sh"],
        "ports": [{"containerPort": ports(first.services)[name]}],
        "startupProbe": _probe(name, first.services, max(ready, service.healthcheck.start_period)),
    }
    if name == ENGINE:
        container["volumeMounts"].append({"name": "shared-memory", "mountPath": "/dev/shm"})  # noqa: S108 - the pod's
        if gpu:
            container["resources"]["limits"][GPU] = str(first.lease.gpus)
    return container


def _runner(service: Service, options: Options, *, gpu: bool) -> Object:
    container = _container(RUNNER, service, gpu=gpu)
    container["volumeMounts"].append({"name": "artifacts", "mountPath": "/artifacts"})
    container["command"] = [
        *options.entrypoints[RUNNER],
        *("verify-index", "--plans", FILES, "--index", f"$({_INDEX})", "--artifacts", "/artifacts"),
    ]
    return container


def _container(name: str, service: Service, *, gpu: bool) -> Object:
    models = {"name": "cache", "mountPath": override.CACHE} if gpu else {"name": "models", "mountPath": "/models"}
    scratch = [{"name": f"{name}-{_slug(path)}", "mountPath": path} for path in service.tmpfs]
    memory = service.mem_limit
    return {
        "name": name,
        "image": service.image,
        "env": [{"name": _INDEX, "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}}}],
        "securityContext": _security(name, service),
        "resources": {"limits": {"memory": _quantity(memory)} if memory else {}},
        "volumeMounts": [
            {"name": "files", "mountPath": FILES, "readOnly": True},
            {**models, "readOnly": True},
            *scratch,
        ],
    }


def _security(name: str, service: Service) -> Object:
    if "no-new-privileges:true" not in service.security_opt or not all(service.user):
        raise InfrastructureError(
            f"compose.yaml runs {name} as {service.user} with {service.security_opt}; a pod is only written"
            " for services that are not root and gain no privileges"
        )
    user, group = service.user
    return {
        "runAsUser": user,
        "runAsGroup": group,
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": service.read_only,
        "capabilities": {"drop": list(service.cap_drop)},
    }


def _probe(name: str, services: Mapping[str, Service], budget: float) -> Object:
    """The health check, asked until `budget` seconds have gone by."""
    health = services[name].healthcheck
    if health is None or health.test[0] != "CMD":
        raise InfrastructureError(f"the health check of {name} in compose.yaml is no CMD: {health and health.test}")
    own = re.compile(rf"\b{services[name].port}\b")
    if not any(own.search(word) for word in health.test):
        raise InfrastructureError(f"the health check of {name} in compose.yaml does not name its port: {health.test}")
    return {
        "exec": {"command": [own.sub(str(ports(services)[name]), word) for word in health.test[1:]]},
        "periodSeconds": math.ceil(health.interval),
        "timeoutSeconds": math.ceil(health.timeout),
        "failureThreshold": math.ceil(budget / math.ceil(health.interval)),
    }


def _scratch(name: str, service: Service) -> list[Object]:
    return [
        {"name": f"{name}-{_slug(path)}", "emptyDir": _in_memory(limit)}
        for path, limit in sorted(service.tmpfs.items())
    ]


def _in_memory(limit: int) -> Object:
    return {"medium": "Memory", **({"sizeLimit": _quantity(limit)} if limit else {})}


def _slug(path: str) -> str:
    return path.strip("/").replace("/", "-")


def _quantity(amount: int) -> str:
    """Bytes as Kubernetes writes them: `2Gi`."""
    for unit, factor in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount % factor == 0:
            return f"{amount // factor}{unit}"
    return str(amount)


def to_text(made: Object) -> str:
    """The manifest as text: JSON, which kubectl takes as it takes YAML."""
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"
