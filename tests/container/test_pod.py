"""The pod of the Kubernetes manifest, done as far as Docker can do it: one network, the same containers, in order.

What a kubelet would do is done here by hand from the manifest alone: expand the index, mount the volumes, run the first
container to its end, start each sidecar and ask its start-up probe, then run the runner. Whatever the manifest leaves
out is missing here too.
"""

from __future__ import annotations

import io
import json
import tarfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import docker
import pytest

from runner.base.settings import variables
from runner.cli.k8s import Cluster, shards, written
from runner.stack.collect import copy_out
from runner.stack.redact import Redactor

Object = dict[str, Any]

INDEX = 1
LABEL = "io.github.tito-e2e.pod-test"
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


class Pod:
    """The containers of one index."""

    def __init__(self, client: docker.DockerClient, spec: Object, files: dict[str, str], image: str) -> None:
        self._client = client
        self._spec = spec
        self._mark = {LABEL: uuid.uuid4().hex}
        self.volumes = {
            volume["name"]: client.volumes.create(labels=self._mark).name
            for volume in spec["volumes"]
            if "configMap" in volume or volume.get("emptyDir") == {}
        }
        (alias,) = spec["hostAliases"]
        self._network = client.containers.run(
            image,
            entrypoint=["sleep", "600"],
            command=[],
            user="0:0",
            detach=True,
            labels=self._mark,
            hostname=f"pod-{INDEX}",
            extra_hosts=dict.fromkeys(alias["hostnames"], alias["ip"]),
            volumes={name: {"bind": f"/volumes/{key}", "mode": "rw"} for key, name in self.volumes.items()},
        )
        for key in self.volumes:
            group = spec["securityContext"]["fsGroup"]
            self._network.exec_run(["chown", f"0:{group}", f"/volumes/{key}"])
            self._network.exec_run(["chmod", "2775", f"/volumes/{key}"])
        (config,) = (volume["name"] for volume in spec["volumes"] if "configMap" in volume)
        self._network.put_archive(f"/volumes/{config}", _archive(files))

    def create(self, container: Object) -> Any:
        """A container as the manifest describes it, not started."""
        security, limits = container["securityContext"], container.get("resources", {}).get("limits", {})
        command = [word.replace("$(JOB_COMPLETION_INDEX)", str(INDEX)) for word in container["command"]]
        memory = {volume["name"]: volume["emptyDir"] for volume in self._spec["volumes"] if volume.get("emptyDir")}
        tmpfs, volumes = {}, {}
        for mount in container["volumeMounts"]:
            if mount["name"] in memory:
                limit = memory[mount["name"]].get("sizeLimit")
                size = f",size={int(limit[:-2]) * _UNITS[limit[-2:]]}" if limit else ""
                tmpfs[mount["mountPath"]] = f"mode=1777{size}"
            else:
                mode = "ro" if mount.get("readOnly") else "rw"
                volumes[self.volumes[mount["name"]]] = {"bind": mount["mountPath"], "mode": mode}
        assert security["runAsNonRoot"] is True
        assert security["allowPrivilegeEscalation"] is False
        return self._client.containers.create(
            container["image"],
            entrypoint=command[:1],
            command=command[1:],
            user=f"{security['runAsUser']}:{security['runAsGroup']}",
            group_add=[str(self._spec["securityContext"]["fsGroup"])],
            read_only=security["readOnlyRootFilesystem"],
            cap_drop=security["capabilities"]["drop"],
            security_opt=["no-new-privileges:true"],
            mem_limit=int(limits["memory"][:-2]) * _UNITS[limits["memory"][-2:]] if "memory" in limits else None,
            network_mode=f"container:{self._network.id}",
            environment={entry["name"]: str(INDEX) for entry in container.get("env", [])},
            tmpfs=tmpfs,
            volumes=volumes,
            labels=self._mark,
        )

    def wait_started(self, container: Object, running: Any) -> None:
        """Ask the start-up probe until it says yes."""
        probe = container["startupProbe"]
        deadline = time.monotonic() + probe["periodSeconds"] * probe["failureThreshold"]
        while running.exec_run(probe["exec"]["command"]).exit_code != 0:
            running.reload()
            assert running.status == "running", running.logs().decode()
            assert time.monotonic() < deadline, running.logs().decode()
            time.sleep(0.5)

    def close(self) -> None:
        """Remove everything."""
        wanted: dict[str, Any] = {"label": [f"{key}={value}" for key, value in self._mark.items()]}
        for container in self._client.containers.list(all=True, filters=wanted):
            container.remove(force=True)
        for volume in self._client.volumes.list(filters=wanted):
            volume.remove(force=True)


def _archive(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o644
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def made(images: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Object:
    """The manifest of two leases with the scripted engine."""
    for variable in variables():
        monkeypatch.delenv(variable.name, raising=False)
    given = {
        "ENGINE": "scripted",
        "FAMILY": "qwen3,glm47",
        "LANES": "v1-openai,v2-openai",
        "SAMPLES": "1",
        "CYCLES": "1",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings, plans = shards(datetime.now(UTC))
    assert len(plans) == 2
    return written(settings, plans, Cluster())


@pytest.fixture
def pod(made: Object, client: docker.DockerClient, images: dict[str, str]) -> Iterator[Pod]:
    config, job = made["items"]
    started = Pod(client, job["spec"]["template"]["spec"], config["data"], images["scripted-engine"])
    yield started
    started.close()


def test_the_containers_of_the_manifest_verify_the_lease_of_their_index(made: Object, pod: Pod, tmp_path: Path) -> None:
    config, job = made["items"]
    spec = job["spec"]["template"]["spec"]
    models, *sidecars = spec["initContainers"]
    first = pod.create(models)
    first.start()
    assert first.wait()["StatusCode"] == 0, first.logs().decode()
    for container in sidecars:
        running = pod.create(container)
        running.start()
        pod.wait_started(container, running)
    (main,) = spec["containers"]
    runner = pod.create(main)
    runner.start()
    ended = runner.wait(timeout=300)
    said = runner.logs().decode()
    assert ended["StatusCode"] == 0, said

    copied = tmp_path / "artifacts"
    assert copy_out(runner, Path("/artifacts"), copied, Redactor([]))  # type: ignore[arg-type]
    (run,) = copied.iterdir()
    planned = json.loads(config["data"][f"plan-{INDEX}.json"])
    assert run.name == planned["run_id"]
    verdict = json.loads((run / "verdict.json").read_text())
    family = planned["leases"][0]["family"]
    assert {cell["cell"]: cell["outcome"] for cell in verdict["cells"]} == {
        f"{family}/{lane}/baseline": "pass" for lane in ("v1-openai", "v2-openai")
    }
    servers = json.loads((run / "environment.json").read_text())["targets"]
    assert servers["session-v2"]["url"] == "http://session-v2:8081"
    assert servers["session-v2"]["answer"]["session_server_instance_id"] == f"pod-{INDEX}-session-v2"
