"""A checkout of SGLang: which commit it is, and whether what the gate needs is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from runner.contract.result import Pin
from runner.ground.shell import Run, run

PINNED_COMMIT = "e95eae48"
"""The commit of SGLang that the conversion is paired with: the head of its pull request 35127. Only here."""

TEST_FILES = (
    "test/registered/unit/entrypoints/anthropic/test_utils.py",
    "test/registered/unit/entrypoints/anthropic/test_serving.py",
)
PACKAGE = "python/sglang"

_GIT_SECONDS = 30.0
_COMMIT = re.compile(r"[0-9a-f]{7,40}\Z")
_CONFIGURATIONS = ("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")


def missing(root: Path, files: Sequence[str]) -> list[str]:
    """What the gate needs and this checkout lacks, one problem each."""
    if not root.is_dir():
        return [f"SGLANG_SOURCE_ROOT={root} is not a directory"]
    problems = []
    if not (root / PACKAGE / "__init__.py").is_file():
        problems.append(f"{root} is no checkout of SGLang: it has no {PACKAGE}/__init__.py")
    problems += [
        f"missing file: {name} is not in {root}; if this checkout has it under another name, give it with --file"
        for name in files
        if not (root / name).is_file()
    ]
    return problems


def read_pin(root: Path, *, expected: str = PINNED_COMMIT, accept: bool = False, execute: Run = run) -> Pin:
    """Compare the checkout's commit with the expected one. A commit that nobody tells is a drift as well."""
    found, told_by, changed = _commit(root, execute)
    same = found is not None and (found.startswith(expected) or expected.startswith(found))
    return Pin(
        expected=expected,
        found=found,
        told_by=told_by,
        changed=changed,
        drift=changed or not same,
        drift_accepted=accept,
    )


def drift_text(pin: Pin) -> str:
    """What is different, for people."""
    if pin.found is None:
        what = f"this checkout does not say its commit (by .git, .git_archival.txt or {PACKAGE}/_version.py)"
    elif pin.changed and pin.found.startswith(pin.expected):
        what = f"tracked files of this checkout differ from its commit {pin.found}"
    else:
        what = f"this checkout is at {pin.found} ({pin.told_by}{', with changes' if pin.changed else ''})"
    return f"pin drift: the contract is pinned to {pin.expected}, but {what}"


def configuration(root: Path, files: Sequence[str]) -> Path | None:
    """The pytest configuration of the checkout that applies to `files`: never one from above the checkout."""
    start = (root / files[0]).parent
    for folder in (start, *start.parents):
        if not folder.is_relative_to(root):
            return None
        for name in _CONFIGURATIONS:
            path = folder / name
            if path.is_file() and _configures(path):
                return path
    return None


def _configures(path: Path) -> bool:
    if path.stem.lstrip(".") == "pytest":
        return True
    section = {"pyproject.toml": "[tool.pytest", "tox.ini": "[pytest]", "setup.cfg": "[tool:pytest]"}[path.name]
    return section in path.read_text(encoding="utf-8", errors="replace")


def _commit(root: Path, execute: Run) -> tuple[str | None, str, bool]:
    if (root / ".git").exists():  # not merely inside another repository
        git = ("git", "-C", str(root), "-c", f"safe.directory={root}")
        head = execute((*git, "rev-parse", "HEAD"), timeout=_GIT_SECONDS)
        if head.ok and _COMMIT.match(head.stdout.strip()):
            status = execute((*git, "status", "--porcelain", "--untracked-files=no"), timeout=_GIT_SECONDS)
            return head.stdout.strip(), "git", bool(status.stdout.strip()) or not status.ok
        return None, "", False
    archived = _recorded(root / ".git_archival.txt", r"^node: ([0-9a-f]{7,40})$")
    if archived:
        return archived, ".git_archival.txt", False
    version = root / PACKAGE / "_version.py"
    if version.is_file():
        return _of_version(version), f"{PACKAGE}/_version.py", False
    return None, "", False


def _recorded(path: Path, pattern: str) -> str | None:
    if not path.is_file():
        return None
    match = re.search(pattern, path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return match[1] if match else None


def _of_version(path: Path) -> str | None:
    """The commit in a version file that setuptools-scm wrote."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            commit = node.value.value.removeprefix("g")
            if names & {"commit_id", "__commit_id__"} and _COMMIT.match(commit):
                return commit
    return None
