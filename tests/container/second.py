"""A second Docker engine for tests that must break one, or that need GPUs where there are none.

It lives in network, mount and process namespaces of its own, so that its bridge and firewall rules are its own, and
nothing of it survives the process that holds the namespaces. The machine's first engine only gives it images.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import docker

from runner.ground import packages

STANDINS = Path(__file__).with_name("standins")
_NEEDED = ("unshare", "nsenter", "ip", "docker")
_READY_SECONDS = 60.0
_LOAD_SECONDS = 400.0
_GROUPS = Path("/sys/fs/cgroup")
_GROUP_SECONDS = 10.0
_PLENTY = 8 << 30
"""Bytes of memory; with more than that to spare the images (1.3 GB) are kept in memory."""

_HOLD = "import signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); print('held', flush=True); sys.stdin.read()"
"""The first process of the namespaces: it reaps what is left to it, ends when this process ends, however that comes
about, and takes everything along."""


def why_not() -> str:
    """Why there can be no second engine on this machine, or empty."""
    if os.geteuid() != 0:
        return "a second Docker engine needs root"
    if packages.dockerd() is None:
        return "a second Docker engine needs dockerd on this machine"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"a second Docker engine needs {', '.join(missing)}"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "ip", "link", "set", "lo", "up"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no namespaces of one's own: {tried.stderr.strip()}" if tried.returncode else ""


class Second:
    """The engine. `bin` is first on its PATH; what lies there when it starts is what it finds there."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tito-second-"))
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        self._socket = self.directory / "docker.sock"
        self._log = self.directory / "dockerd.log"
        (self.directory / "daemon.json").write_text("{}")
        self._holder = subprocess.Popen(
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *(sys.executable, "-c", _HOLD),
            ],
            stdout=subprocess.PIPE,
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "held\n"
        (self._first,) = _children(self._holder.pid)
        subprocess.run(self.inside(["ip", "link", "set", "lo", "up"]), check=True)
        (self.directory / "data").mkdir()
        if _available() > _PLENTY:  # loading images and removing them again is then a matter of seconds
            memory = ["mount", "-t", "tmpfs", "-o", f"size={_PLENTY // 2}", "images", str(self.directory / "data")]
            subprocess.run([*self._enter, *memory], check=True)
        self._dockerd: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to talk to this engine and to find the stand-ins."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return {"DOCKER_HOST": f"unix://{self._socket}", "PATH": path, "XDG_STATE_HOME": str(self.directory / "state")}

    def inside(self, command: Sequence[str]) -> list[str]:
        """`command`, in the engine's network: published ports are there and nowhere else."""
        return ["nsenter", "--target", str(self._first), "--net", *command]

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self._first), "--net", "--mount", "--pid"]

    def start(self) -> None:
        """Start dockerd and wait until it answers."""
        place = self.directory
        command = [
            str(packages.dockerd()),
            *("--config-file", str(place / "daemon.json"), "--data-root", str(place / "data")),
            *("--exec-root", str(place / "exec"), "--pidfile", str(place / "docker.pid")),
            *("--host", f"unix://{self._socket}"),
            *("--containerd-namespace", "tito-second", "--containerd-plugins-namespace", "tito-second-plugins"),
            # a group of its own, which cgroupfs takes on every machine; it is removed at the end
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", self.directory.name),
        ]
        with self._log.open("ab") as log:
            self._dockerd = subprocess.Popen(
                [*self._enter, *command],
                env={**os.environ, **self.environment, "DOCKER_HOST": ""},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._answers():
            said = self._log.read_text(errors="replace")[-2000:]
            assert self._dockerd.poll() is None, f"dockerd ended: {said}"
            assert time.monotonic() < deadline, f"dockerd does not answer: {said}"
            time.sleep(0.2)

    def _answers(self) -> bool:
        command = ["docker", "version", "--format", "{{.Server.Version}}"]
        done = subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, check=False)
        return done.returncode == 0

    def stop(self, *, kill: bool = False) -> None:
        """End dockerd, as a restart of the service does, or with SIGKILL; its containers' files stay."""
        assert self._dockerd is not None
        pid_file = self.directory / "docker.pid"
        signal_name = "KILL" if kill else "TERM"
        subprocess.run([*self._enter, "kill", f"-{signal_name}", pid_file.read_text().strip()], check=True)
        self._dockerd.wait(60)
        self._dockerd = None
        if kill:  # a start waits for the processes that these name, whoever they are by then
            pid_file.unlink(missing_ok=True)
            (self.directory / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)

    def restart(self, *, kill: bool = False) -> None:
        """Stop and start."""
        self.stop(kill=kill)
        self.start()

    def client(self) -> docker.DockerClient:
        """Docker's API on this engine."""
        return docker.DockerClient(base_url=self.environment["DOCKER_HOST"])

    def load(self, images: Sequence[str]) -> None:
        """Bring images over from the machine's first engine."""
        have = self.client()
        try:
            known = {tag for image in have.images.list() for tag in image.tags}
        finally:
            have.close()
        missing = [image for image in images if image not in known]
        if not missing:
            return
        with subprocess.Popen(["docker", "save", *missing], stdout=subprocess.PIPE) as saved:
            subprocess.run(
                ["docker", "load", "--quiet"],
                stdin=saved.stdout,
                env={**os.environ, **self.environment},
                check=True,
                timeout=_LOAD_SECONDS,
            )

    def close(self) -> None:
        """End it and everything in it, and remove its files."""
        self._holder.kill()  # takes the first process of the namespaces along, and that takes the rest
        self._holder.wait(30)
        for pipe in (self._holder.stdout, self._holder.stdin):
            if pipe is not None:
                pipe.close()
        if self._dockerd is not None:
            self._dockerd.wait(30)
        shutil.rmtree(self.directory)
        _remove_groups(self.directory.name)


def equip(second: Second, devices: int) -> None:
    """Put inventory and hook of an NVIDIA machine on its PATH. The hook is found at the engine's next start."""
    (second.directory / "inventory.json").write_text(json.dumps([str(index) for index in range(devices)]))
    for name, source in (("nvidia-smi", "inventory.py"), ("nvidia-container-runtime-hook", "hook.py")):
        target = second.bin / name
        target.write_text(f"#!{sys.executable}\n" + (STANDINS / source).read_text(encoding="utf-8"))
        target.chmod(0o755)


def strip(second: Second) -> None:
    """Take the stand-ins away again."""
    for name in ("nvidia-smi", "nvidia-container-runtime-hook"):
        (second.bin / name).unlink(missing_ok=True)


def hooked(second: Second) -> list[Mapping[str, str]]:
    """Every call of the hook so far: `container`, `devices` as the engine asked for them."""
    path = second.directory / "hook.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def _remove_groups(name: str) -> None:
    """The control groups of its containers, as soon as the kernel has ended what was in them."""
    deadline = time.monotonic() + _GROUP_SECONDS
    while left := [path for path in [_GROUPS / name, *_GROUPS.glob(f"*/{name}")] if path.is_dir()]:
        for top in left:
            for folder in [*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top]:
                with suppress(OSError):
                    folder.rmdir()
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _available() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _children(pid: int) -> list[int]:
    return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
