"""The CPU engine with another version of SGLang: its files in a place of their own, never in the working tree.

What the image installs is derived, not guessed: each package that requirements.in names gets the constraint that this
version of SGLang declares for it, what it does not declare stays as it is, and everything else keeps the version that
is locked now, so that two images differ by SGLang and by what it asks for. Packages that are declared and not installed
here - kernels for devices, mostly - stay out; whether one is needed now is what the stub check of the build finds out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.ground.pin import pinned_sglang
from runner.ground.recipe import RECIPES, Recipe, files
from runner.ground.shell import Run, run
from runner.ground.site import Site

RECIPE = replace(RECIPES["engine-cpu"], name="engine-candidate")
"""The engine's recipe under another name, so that a candidate is never taken for the working image."""

REQUIREMENTS = ("requirements.in", "requirements-alone.in", "requirements.lock")
"""What differs from the working tree; to move the pins is to copy these."""

PYTHON, PLATFORM = "3.11", "x86_64-manylinux_2_36"
"""What the image has; lock.sh says the same."""

_ENVIRONMENT = {"python_version": PYTHON, "sys_platform": "linux", "platform_machine": "x86_64", "extra": ""}
_SECONDS = 600.0
_NO_TORCH = "torch ; python_version < '3'\n"
"""A marker that is never true: torch is dropped from a resolution, its build for CPUs comes from elsewhere."""

_UV_HINT = "make venv-dev   # installs uv, which resolves the packages of the image"


@dataclass(frozen=True)
class Declared:
    """What one version of SGLang says that it needs on the image's platform, by canonical name."""

    version: str
    requirements: Mapping[str, Requirement]

    def constraint(self, name: str) -> str | None:
        """The version specifier for `name`, empty for any; None where it is not declared."""
        found = self.requirements.get(canonicalize_name(name))
        return None if found is None else str(found.specifier)


@dataclass(frozen=True)
class Candidate:
    """Files that an image can be built from. `site` has them as its root; `locked` is package -> version."""

    version: str
    site: Site
    declared: Declared
    locked: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """The build context."""
        return self.site.root / RECIPE.context


def checked_version(text: str) -> str:
    """`text` as a version. Raises ConfigurationError where it is none."""
    try:
        return str(Version(text))
    except InvalidVersion as error:
        raise ConfigurationError([f"VERSION={text!r} is not a version of a package, such as 0.5.23"]) from error


def declared(version: str, execute: Run = run) -> Declared:
    """What this version of SGLang declares, from its published wheel.

    Raises:
        ConfigurationError: the package index has no such version, or no wheel of it that fits the image.
        InfrastructureError: the index does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="tito-sglang-") as scratch:
        done = execute(
            (
                *(_uv(), "pip", "install", "--target", scratch, "--no-deps", "--only-binary", ":all:"),
                *("--python", sys.executable, "--python-version", PYTHON, "--python-platform", PLATFORM),
                f"sglang=={version}",
            ),
            timeout=_SECONDS,
        )
        if not done.ok and not done.timed_out and "no version of sglang" in done.stderr:
            raise ConfigurationError(
                [f"VERSION={version}: the package index has no SGLang {version} ({_cause(done.stderr)})"]
            )
        if not done.ok and not done.timed_out and "No solution found" in done.stderr:
            raise ConfigurationError(
                [f"VERSION={version}: SGLang {version} does not fit Python {PYTHON}, {PLATFORM}: {_cause(done.stderr)}"]
            )
        done.check(f"the package of SGLang {version} could not be fetched", _UV_HINT if done.missing else "")
        (metadata,) = Path(scratch).glob("sglang-*.dist-info/METADATA")
        return Declared(version, dict(_requirements(metadata.read_text(encoding="utf-8"))))


def _requirements(metadata: str) -> Iterator[tuple[str, Requirement]]:
    for text in HeaderParser().parsestr(metadata).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate(_ENVIRONMENT):
            yield canonicalize_name(requirement.name), requirement


def with_constraints(text: str, of: Declared, old: str) -> str:
    """A requirements file with what `of` declares; comments and order stay. `old` is the version that it was for."""
    lines = []
    for line in text.splitlines():
        name = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line)
        if name is None:
            lines.append(line.replace(f"SGLang {old}", f"SGLang {of.version}"))
        elif canonicalize_name(name[0]) == "sglang":
            lines.append(f"sglang=={of.version}")
        else:
            constraint = of.constraint(name[0])
            lines.append(line if constraint is None else f"{name[0]}{constraint}")
    return "\n".join(lines) + "\n"


def locked(lock: str) -> dict[str, str]:
    """Package -> version of a lock file's text."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE))


def make(version: str, site: Site, of: Declared, execute: Run = run) -> Candidate:
    """Copy the engine's files beside the tree and lock them for this version.

    Raises:
        ConfigurationError: the packages that this version declares cannot be had together.
    """
    root = site.cache / "candidates" / version
    shutil.rmtree(root, ignore_errors=True)
    for entry in files(RECIPE, site.root):
        target = root / entry.path.relative_to(site.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(entry.path, target)
    for extra in RECIPE.extras:  # hundreds of megabytes that are the same for both
        (root / extra).mkdir(parents=True, exist_ok=True)
        for path in (site.root / extra).glob("*.whl"):
            (root / extra / path.name).symlink_to(path)
    folder = root / RECIPE.context
    old = pinned_sglang(site.root)
    for name in ("requirements.in", "requirements-alone.in"):
        path = folder / name
        path.write_text(with_constraints(path.read_text(encoding="utf-8"), of, old), encoding="utf-8")
    text = _lock(folder, version, execute)
    (folder / "requirements.lock").write_text(text, encoding="utf-8")
    return Candidate(version, replace(site, root=root), of, locked(text))


def _lock(folder: Path, version: str, execute: Run) -> str:
    """The lock, made as lock.sh makes it, but with the present lock's versions wherever they still fit."""
    present = (folder / "requirements.lock").read_text(encoding="utf-8")
    head = "".join(line for line in present.splitlines(keepends=True) if line.startswith("#"))
    parts = []
    with tempfile.TemporaryDirectory(prefix="tito-lock-") as scratch:
        override = Path(scratch) / "no-torch.txt"
        override.write_text(_NO_TORCH, encoding="utf-8")
        for name, options in (
            ("requirements.in", ("--override", str(override))),
            ("requirements-alone.in", ("--no-deps",)),
        ):
            out = Path(scratch) / f"{name}.lock"
            out.write_text(present, encoding="utf-8")  # uv prefers the versions that it finds in its output file
            done = execute(
                (
                    *(_uv(), "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--generate-hashes"),
                    *("--python-version", PYTHON, "--python-platform", PLATFORM, *options),
                    *(str(folder / name), "--output-file", str(out)),
                ),
                timeout=_SECONDS,
            )
            if not done.ok and not done.timed_out and "No solution found" in done.stderr:
                raise ConfigurationError(
                    [f"VERSION={version}: its requirements cannot be had together: {_cause(done.stderr)}"]
                )
            done.check(f"the packages for SGLang {version} could not be resolved", _UV_HINT if done.missing else "")
            parts.append(out.read_text(encoding="utf-8"))
    return head + "".join(parts)


def recipe() -> Mapping[str, Recipe]:
    """For `images.ensure`: the candidate's recipe by its name."""
    return {RECIPE.name: RECIPE}


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("uv")
    if found is None:
        raise InfrastructureError("uv, which resolves the packages of another SGLang, is not installed", _UV_HINT)
    return found


def _cause(stderr: str) -> str:
    """What uv says of the reason, in one line."""
    text = " ".join(stderr.split())
    return (text.partition("cause: ")[2] or text.partition("error: ")[2] or text).rstrip(".")
