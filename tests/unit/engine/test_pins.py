"""What the image is built from: one torch version in all places, a complete lock, and the step that fetches torch."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[3] / "images" / "engine-cpu"

WHEEL = "torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"


def read(name: str) -> str:
    return (ENGINE / name).read_text(encoding="utf-8")


def locked() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", read("requirements.lock"), flags=re.MULTILINE))


def test_the_dockerfile_and_the_fetching_step_ask_for_the_same_torch() -> None:
    (in_dockerfile,) = re.findall(r"torch==([\d.]+)", read("Dockerfile"))
    (fetched,) = re.findall(r"^version=([\d.]+)\+cpu$", read("fetch-wheels.sh"), flags=re.MULTILINE)
    assert in_dockerfile == fetched


def test_the_lock_has_every_package_that_is_asked_for_and_not_torch() -> None:
    pins = locked()
    asked = re.findall(
        r"^([a-z][a-z0-9.-]*)(?:==(\S+))?",
        read("requirements.in") + read("requirements-alone.in"),
        flags=re.MULTILINE | re.IGNORECASE,
    )
    assert {name for name, _ in asked} - set(pins) == set()
    assert {name: version for name, version in asked if version and pins[name] != version} == {}
    assert "torch" not in pins


def test_every_locked_package_has_a_hash_and_none_has_an_address() -> None:
    text = read("requirements.lock")
    entries = re.split(r"\n(?=[a-z])", text[text.index("\n") :])
    assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []
    assert "://" not in text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the fetching step with an empty wheels/ and a stand-in for python3 that says what pip would."""
    shutil.copy(ENGINE / "fetch-wheels.sh", tmp_path)
    (tmp_path / "wheels").mkdir()
    return tmp_path


def fetch(folder: Path, pip: str) -> str:
    """Run the step with `pip` as the shell code of the host's python3; gives what it printed."""
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    (binaries / "python3").write_text(f"#!/bin/sh\n{pip}\n", encoding="utf-8")
    (binaries / "python3").chmod(0o755)
    done = subprocess.run(
        ["bash", str(folder / "fetch-wheels.sh")],
        env={"PATH": f"{binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return done.stdout


def test_a_torch_that_pip_finds_is_put_into_wheels(folder: Path) -> None:
    pip = f'while [ "$1" != --dest ]; do shift; done; : >"$2/{WHEEL}"'
    assert "fetched into wheels/" in fetch(folder, pip)
    assert [path.name for path in (folder / "wheels").iterdir()] == [WHEEL]


def test_a_torch_that_pip_does_not_know_leaves_the_folder_empty_and_is_no_error(folder: Path) -> None:
    (folder / "wheels" / "torch-1.0-old.whl").touch()
    assert "not known to this host's pip" in fetch(folder, "echo no matching distribution >&2; exit 1")
    assert list((folder / "wheels").iterdir()) == []


def test_a_torch_that_is_already_there_is_not_fetched_again(folder: Path) -> None:
    (folder / "wheels" / WHEEL).touch()
    assert "already in wheels/" in fetch(folder, "echo asked again >&2; exit 1")
