"""The Kubernetes form of a plan: valid by Kubernetes' own schema, and saying what compose.yaml says."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.base.settings import variables
from runner.cli import k8s
from runner.cli.k8s import Cluster, entrypoints, shards, written
from runner.cli.stacks import ROOT, gpu_image
from runner.oracle.template import bundled
from runner.plan.model import Plan
from runner.stack import manifest
from runner.stack.definition import COMPOSE, services
from runner.verdict.merge import conflicts
from tests.unit.agents.bench import MODEL

Object = dict[str, Any]
Make = Callable[..., Object]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())
"""From the first in which all that is used here is on by default."""

HEALTH = {"interval": "3s", "timeout": "5s", "retries": 3, "start_period": "9s"}
SIDECARS = ["engine", "session-v1", "session-v2"]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine: no variables, no Docker."""
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)
    monkeypatch.setattr(k8s.base, "find", lambda site, client: None)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Make:
    """The manifest for these variables and this cluster."""

    def manifest_of(*, cluster: Cluster | None = None, **given: str) -> Object:
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        settings, plans = shards(NOW)
        return written(settings, plans, cluster or Cluster(artifacts_claim="kept", cache_claim="weights"))

    return manifest_of


def jobs(made: Object) -> list[Object]:
    return [item for item in made["items"] if item["kind"] == "Job"]


def files(made: Object) -> list[dict[str, str]]:
    return [item["data"] for item in made["items"] if item["kind"] == "ConfigMap"]


def pod(job: Object) -> Object:
    spec: Object = job["spec"]["template"]["spec"]
    return spec


def containers(job: Object) -> dict[str, Object]:
    found = pod(job)["initContainers"] + pod(job)["containers"]
    return {container["name"]: container for container in found}


def validate(item: Object, version: str = VERSIONS[-1]) -> None:
    kubernetes_validate.validate(item, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="cpu"),
        pytest.param({"ENGINE": "gpu", "FAMILY": "all"}, id="gpu"),
        pytest.param({"ENGINE": "gpu", "FAMILY": "deepseekv4", "LANES": "v2-openai"}, id="one lease"),
    ],
)
def test_every_object_is_valid_by_the_schema_of_kubernetes(make: Make, version: str, given: dict[str, str]) -> None:
    cluster = Cluster("reg.example/team", "kept", "weights", 2, ("pull",))
    made = make(cluster=cluster, **given)
    assert made["items"]
    for item in made["items"]:
        validate(item, version)


def _spec(change: Callable[[Object], object]) -> Callable[[Object], object]:
    return lambda job: change(pod(job))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda job: job["spec"].update(completions="two"), id="a number as a word"),
        pytest.param(lambda job: job["spec"].update(completion=2), id="a field that is not known"),
        pytest.param(lambda job: job["spec"].pop("template"), id="no pod"),
        pytest.param(_spec(lambda spec: spec.pop("containers")), id="no container"),
        pytest.param(_spec(lambda spec: spec["containers"][0].pop("name")), id="a container without a name"),
        pytest.param(_spec(lambda spec: spec["initContainers"][1].update(restartpolicy="Always")), id="a typing error"),
        pytest.param(
            _spec(lambda spec: spec["initContainers"][1]["startupProbe"].update(periodSeconds="3s")), id="a duration"
        ),
        pytest.param(
            _spec(lambda spec: spec["initContainers"][1]["securityContext"].update(runAsUser="root")), id="a user name"
        ),
        pytest.param(_spec(lambda spec: spec["containers"][0]["volumeMounts"][0].pop("mountPath")), id="no mount path"),
        pytest.param(
            _spec(lambda spec: spec["initContainers"][1]["resources"].update(limits=["8Gi"])), id="a list of limits"
        ),
        pytest.param(_spec(lambda spec: spec["volumes"][0].pop("name")), id="a volume without a name"),
    ],
)
def test_a_broken_manifest_is_refused_by_the_validator(make: Make, damage: Callable[[Object], object]) -> None:
    (job,) = jobs(make())
    validate(job)
    broken = copy.deepcopy(job)
    damage(broken)
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(broken)


def test_the_validator_knows_sidecars_and_a_cluster_without_them_would_refuse(make: Make) -> None:
    (job,) = jobs(make())
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolicy"):
        validate(job, "1.27")


def test_servers_are_sidecars_in_order_and_the_runner_is_the_end(make: Make) -> None:
    (job,) = jobs(make())
    models, *sidecars = pod(job)["initContainers"]
    assert models["name"] == "models"
    assert "restartPolicy" not in models, "it is waited for to its end"
    assert [container["name"] for container in sidecars] == SIDECARS
    for container in sidecars:
        assert container["restartPolicy"] == "Always"
        assert container["startupProbe"]["exec"]["command"], "the next is started when this one is healthy"
    assert [container["name"] for container in pod(job)["containers"]] == ["runner"]
    assert (job["spec"]["completionMode"], pod(job)["restartPolicy"]) == ("Indexed", "Never")
    assert job["spec"]["backoffLimitPerIndex"] == 0


def test_what_compose_says_is_what_the_pod_says(make: Make) -> None:
    (job,) = jobs(make(READY_TIMEOUT="30"))
    plan = Plan.model_validate_json(files(make())[0]["plan-0.json"])
    said = services(ROOT, {})
    for name, container in containers(job).items():
        service = said["engine" if name == "models" else name]
        security = container["securityContext"]
        assert (security["runAsUser"], security["runAsGroup"]) == service.user == (10001, 10001)
        assert security["runAsNonRoot"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert security["readOnlyRootFilesystem"] is True
        assert "privileged" not in security
        if name != "models":
            assert container["resources"]["limits"]["memory"] == f"{service.mem_limit >> 30}Gi"
            mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert set(service.tmpfs) <= set(mounted)
    engine = containers(job)["engine"]["startupProbe"]
    check = said["engine"].healthcheck
    assert check is not None
    assert engine["exec"]["command"] == check.test[1:]
    assert engine["periodSeconds"] == check.interval
    assert engine["timeoutSeconds"] == check.timeout
    assert engine["periodSeconds"] * engine["failureThreshold"] >= check.start_period
    patient = [containers(jobs(make(READY_TIMEOUT="900"))[0])[name]["startupProbe"] for name in SIDECARS]
    assert all(probe["periodSeconds"] * probe["failureThreshold"] >= 900 for probe in patient)
    volumes = {volume["name"]: volume for volume in pod(job)["volumes"]}
    assert volumes["shared-memory"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert volumes["engine-tmp"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "1Gi"}
    assert volumes["artifacts"] == {"name": "artifacts", "persistentVolumeClaim": {"claimName": "kept"}}
    assert volumes["models"] == {"name": "models", "emptyDir": {}}
    assert plan.leases[0].tokenizer == "/models/qwen3"
    read_only = [m for c in SIDECARS for m in containers(job)[c]["volumeMounts"] if m["name"] == "models"]
    assert [mount["readOnly"] for mount in read_only] == [True, True, True]


def test_a_change_of_compose_is_a_change_of_the_manifest(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loaded = yaml.safe_load((ROOT / COMPOSE).read_text())
    engine = loaded["services"]["engine"]
    engine |= {"mem_limit": "3g", "user": "7:8", "read_only": False}
    engine["healthcheck"] |= {"interval": "7s", "test": ["CMD", "ask", "30000"]}
    engine["environment"]["EXTRA"] = "it's new"
    (tmp_path / COMPOSE).write_text(yaml.safe_dump(loaded))
    read = services
    monkeypatch.setattr(k8s, "services", lambda root, given: read(tmp_path, given))
    made = make()
    changed = containers(jobs(made)[0])["engine"]
    assert changed["resources"]["limits"]["memory"] == "3Gi"
    assert changed["securityContext"]["runAsUser"] == 7
    assert changed["securityContext"]["readOnlyRootFilesystem"] is False
    assert changed["startupProbe"]["periodSeconds"] == 7
    assert changed["startupProbe"]["exec"]["command"] == ["ask", "30000"]
    assert _environment(files(made)[0]["engine-0.sh"])["EXTRA"] == "it's new"


@pytest.mark.parametrize(
    ("service", "changes", "said"),
    [
        ("engine", {"healthcheck": None}, "engine has no health check"),
        ("session-v1", {"healthcheck": {**HEALTH, "test": ["CMD", "true"]}}, "does not name its port"),
        ("session-v2", {"healthcheck": {**HEALTH, "test": ["CMD-SHELL", "8080"]}}, "is no CMD"),
        ("session-v1", {"security_opt": []}, "runs session-v1 as"),
        ("runner", {"user": "0:0"}, "runs runner as"),
    ],
)
def test_what_has_no_form_in_a_pod_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, service: str, changes: Object, said: str
) -> None:
    loaded = yaml.safe_load((ROOT / COMPOSE).read_text())
    loaded["services"][service] |= changes
    (tmp_path / COMPOSE).write_text(yaml.safe_dump(loaded))
    read = services
    monkeypatch.setattr(k8s, "services", lambda root, given: read(tmp_path, given))
    with pytest.raises(InfrastructureError, match=said):
        make()


def _environment(script: str) -> dict[str, str]:
    """What the started program finds in its environment, found by running the script."""
    *lines, last = script.splitlines()
    assert last.startswith("exec ")
    shown = "\n".join([*lines, "exec env -0"])
    done = subprocess.run(["/bin/sh", "-c", shown], env={"HOSTNAME": "pod-7"}, capture_output=True, check=True)
    return dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)


def test_each_index_is_started_with_its_own_environment(make: Make) -> None:
    made = make()
    (held,) = files(made)
    said = services(ROOT, {"TITO_FAMILY": "qwen3"})
    assert _environment(held["engine-0.sh"]).items() >= said["engine"].environment.items()
    v1, v2 = (_environment(held[f"session-{version}-0.sh"]) for version in ("v1", "v2"))
    assert v1.items() >= said["session-v1"].environment.items()
    assert (v1["SESSION_SERVER_CORE_VERSION"], v2["SESSION_SERVER_CORE_VERSION"]) == ("v1", "v2")
    assert (v1["SESSION_SERVER_PORT"], v2["SESSION_SERVER_PORT"]) == ("8080", "8081"), "one network for all"
    assert (v1["SESSION_SERVER_INSTANCE_ID"], v2["SESSION_SERVER_INSTANCE_ID"]) == (
        "pod-7-session-v1",
        "pod-7-session-v2",
    )
    (job,) = jobs(made)
    asked = [" ".join(containers(job)[name]["startupProbe"]["exec"]["command"]) for name in SIDECARS]
    assert [re.findall(r"\b(?:30000|8080|8081)\b", line) for line in asked] == [["30000"], ["8080"], ["8081"]]
    assert containers(job)["session-v2"]["command"] == ["/bin/sh", "/plan/session-v2-$(JOB_COMPLETION_INDEX).sh"]
    index = containers(job)["engine"]["env"][0]
    assert index["name"] == "JOB_COMPLETION_INDEX"
    assert index["valueFrom"]["fieldRef"]["fieldPath"].endswith("job-completion-index']")
    plan = Plan.model_validate_json(held["plan-0.json"])
    assert plan.leases[0].urls == {
        "engine": "http://engine:30000",
        "session-v1": "http://session-v1:8080",
        "session-v2": "http://session-v2:8081",
    }
    (alias,) = pod(job)["hostAliases"]
    assert alias == {"ip": "127.0.0.1", "hostnames": SIDECARS}


def test_the_entry_points_are_those_of_the_images() -> None:
    found = entrypoints("engine-cpu")
    assert found["runner"] == ["python", "-m", "runner"]
    assert found["session-v1"] == found["session-v2"] == ["python", "-m", "session_server"]
    assert found["engine"] == ["python", "-m", "serve"]
    assert entrypoints("scripted-engine")["engine"][-2:] == ["-m", "scripted_engine"]


def test_leases_of_another_size_are_another_job_and_every_lease_is_an_index_once(make: Make) -> None:
    made = make(ENGINE="gpu", FAMILY="all", cluster=Cluster(cache_claim="weights", parallelism=2))
    plans = [
        Plan.model_validate_json(text)
        for held in files(made)
        for name, text in held.items()
        if name.startswith("plan-")
    ]
    by_gpus: dict[str, int] = {}
    for plan in plans:
        (lease,) = plan.leases
        by_gpus[str(lease.gpus)] = by_gpus.get(str(lease.gpus), 0) + 1
    asked = {}
    for job in jobs(made):
        limits = containers(job)["engine"]["resources"]["limits"]
        assert "memory" not in limits, "the real engine has no limit of main memory"
        asked[limits["nvidia.com/gpu"]] = job["spec"]["completions"]
        assert job["spec"]["parallelism"] == 2
        others = [container for name, container in containers(job).items() if name != "engine"]
        assert not any("nvidia.com/gpu" in container["resources"]["limits"] for container in others)
        assert containers(job)["engine"]["image"] == gpu_image()
        assert "models" not in containers(job)
        volumes = {volume["name"]: volume for volume in pod(job)["volumes"]}
        assert volumes["cache"]["persistentVolumeClaim"] == {"claimName": "weights", "readOnly": True}
        assert volumes["shared-memory"]["emptyDir"]["sizeLimit"] == "32Gi"
        assert volumes["artifacts"]["emptyDir"] == {}
    assert asked == by_gpus
    assert set(asked) == {"2", "4"}
    count = len(plans)
    assert {plan.shard for plan in plans} == {f"{number}/{count}" for number in range(1, count + 1)}
    assert len({plan.run_id for plan in plans}) == count
    assert conflicts(plans) == [], "merge takes them as the shards of one run"


def test_a_gpu_index_has_its_flags_its_template_and_the_model_of_the_cache(make: Make) -> None:
    made = make(ENGINE="gpu", FAMILY="qwen35")
    (held,) = files(made)
    script = held["engine-0.sh"]
    assert script.splitlines()[-1].startswith("exec python3 -m sglang.launch_server --model-path Qwen/Qwen3.5-35B-A3B")
    assert "--tensor-parallel-size 2" in script
    assert "--chat-template /plan/chat_template-0.jinja" in script
    assert held["chat_template-0.jinja"] == bundled("qwen35")
    assert _environment(script)["HF_HUB_OFFLINE"] == "1"
    assert "/hf/hub/models--Qwen--Qwen3.5-35B-A3B-FP8/snapshots/$(cat " in held["session-v1-0.sh"]


def test_images_are_named_under_the_registry_and_own_ones_as_they_are(make: Make) -> None:
    (job,) = jobs(make(cluster=Cluster(registry="reg.example/team/"), SESSION_IMAGE="mine:1"))
    images = {name: container["image"] for name, container in containers(job).items()}
    assert re.fullmatch(r"reg\.example/team/runner:[0-9a-f]{12}", images["runner"])
    assert re.fullmatch(r"reg\.example/team/engine-cpu:[0-9a-f]{12}", images["engine"])
    assert images["session-v1"] == images["session-v2"] == "mine:1"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"SHARD": "1/2", "ENGINE": "gpu", "FAMILY": "all"}, "SHARD is not for k8s"),
        ({"WORKERS": "2"}, "WORKERS is not for k8s"),
        ({"SESSION_V2_URL": "http://there:1", "LANES": "v2-openai", "TOKENIZER": str(MODEL)}, "unset ENGINE_URL"),
        ({"FAMILY": "nope"}, "no such family"),
    ],
)
def test_what_makes_no_sense_in_a_cluster_is_refused(make: Make, given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        make(**given)


def test_gpus_without_a_model_cache_are_refused(make: Make) -> None:
    with pytest.raises(ConfigurationError, match="--model-cache"):
        make(ENGINE="gpu", FAMILY="qwen3", cluster=Cluster())


def test_more_than_a_config_map_holds_is_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_LIMIT", 1000)
    with pytest.raises(ConfigurationError, match="a ConfigMap holds 1000"):
        make()


@pytest.fixture
def written_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[Path, str]]:
    before = dict(os.environ)
    out = tmp_path / "job.json"
    assert k8s.k8s(["FAMILY=qwen3", "SAMPLES=1"], Cluster(), out) == 0
    yield out, capsys.readouterr().out
    os.environ.clear()
    os.environ.update(before)


def test_a_file_that_cannot_be_written_is_wrong_usage(tmp_path: Path) -> None:
    for out in (tmp_path, tmp_path / "nowhere" / "job.json"):
        with pytest.raises(ConfigurationError, match=f"--out='{out}' cannot be written: "):
            k8s.k8s([], Cluster(), out)


def test_the_file_is_what_kubectl_is_told_to_apply(written_file: tuple[Path, str]) -> None:
    out, said = written_file
    assert f"kubectl apply -f {out}" in said
    assert "index 0: qwen3" in said
    loaded = json.loads(out.read_text())
    assert loaded["kind"] == "List"
    for item in loaded["items"]:
        validate(item)
