"""What each image of the project is made from, as data, and the hash and the archive of it.

The archive that Docker gets holds the files that count and the extras, nothing else: what is hashed and what a build
can see are the same list, so a stale image cannot be taken for a current one. Extras (downloaded wheels) are sent and
not hashed; a file that counts names their versions.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.base.errors import InfrastructureError
from runner.ground.site import IMAGE_PREFIX

_IGNORED_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".git"})
_IGNORED_SUFFIXES = frozenset({".pyc", ".pyo", ".swp", ".egg-info"})


@dataclass(frozen=True)
class Recipe:
    """One image. All paths are relative to the repository and written with `/`."""

    name: str
    context: str
    """Folder that is the build context; "" is the repository."""
    dockerfile: str
    counts: tuple[str, ...]
    """Files and folders that the image is made from."""
    without: tuple[str, ...] = ()
    """Folders inside `counts` that the image is not made from."""
    extras: tuple[str, ...] = ()
    """Folders that a build needs and that do not count, because something that counts pins their content."""
    prepare: str = ""
    """Script run on the host before a build, where it exists."""
    service: str = ""
    """Compose service that runs it."""
    on: str = ""
    """Image of ours that it is built on: the build argument ENGINE_IMAGE is its tag, and that counts."""

    def tag(self, digest: str) -> str:
        """The image's full name."""
        return f"{IMAGE_PREFIX}/{self.name}:{digest}"


RECIPES: Mapping[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            "engine-cpu",
            context="images/engine-cpu",
            dockerfile="images/engine-cpu/Dockerfile",
            counts=("images/engine-cpu",),
            without=("images/engine-cpu/wheels", "images/engine-cpu/tests"),
            extras=("images/engine-cpu/wheels",),
            prepare="images/engine-cpu/fetch-wheels.sh",
            service="engine",
        ),
        Recipe(
            "session-server",
            context="images/session-server",
            dockerfile="images/session-server/Dockerfile",
            counts=("images/session-server",),
            without=("images/session-server/tests",),
            service="session-v1",
        ),
        Recipe(
            "runner",
            context="",
            dockerfile="images/runner/Dockerfile",
            counts=("images/runner", "runner", "requirements.lock"),
            service="runner",
        ),
        Recipe(
            "session-server-miles",
            context="",
            dockerfile="images/session-server-miles/Dockerfile",
            counts=(
                "images/session-server-miles",
                "runner/__init__.py",
                *(f"runner/base/{name}.py" for name in ("__init__", "errors", "terms")),
                *(f"runner/contract/{name}.py" for name in ("__init__", "arguments", "compare", "flow", "source")),
            ),
            service="session-v1",
            on="engine-cpu",
        ),
        Recipe(
            "scripted-engine",
            context="",
            dockerfile="tests/scripted_engine/Dockerfile",
            counts=("tests/scripted_engine", "images/engine-cpu/models"),
            service="engine",
        ),
    )
}


@dataclass(frozen=True)
class Entry:
    """One file that a build gets: where it lies, its name inside the context, whether it may be executed."""

    path: Path
    name: str
    executable: bool


def files(recipe: Recipe, root: Path) -> list[Entry]:
    """The files that count, sorted by name. Raises InfrastructureError where one of `counts` does not exist."""
    skipped = [root / folder for folder in recipe.without]
    found = {}
    for part in recipe.counts:
        start = root / part
        if not start.exists():
            raise InfrastructureError(f"the image {recipe.name} is made from {part}, which is not there", "git status")
        for path in _walk(start):
            if not any(path.is_relative_to(folder) for folder in skipped):
                found[path] = _entry(recipe, root, path)
    return sorted(found.values(), key=lambda entry: entry.name)


def extras(recipe: Recipe, root: Path) -> list[Entry]:
    """The files that are sent and do not count, sorted by name; none where a folder does not exist."""
    paths = [path for folder in recipe.extras for path in _walk(root / folder)]
    return sorted((_entry(recipe, root, path) for path in paths), key=lambda entry: entry.name)


def digest(recipe: Recipe, root: Path, arguments: Mapping[str, str]) -> str:
    """12 hex digits over names, modes and bytes of the files that count, and over the build arguments."""
    whole = hashlib.sha256()
    for name, value in sorted(arguments.items()):
        whole.update(f"{name}={value}\0".encode())
    for entry in files(recipe, root):
        whole.update(f"{entry.name}\0{int(entry.executable)}\0".encode())
        whole.update(hashlib.sha256(entry.path.read_bytes()).digest())
    return whole.hexdigest()[:12]


def archive(recipe: Recipe, root: Path, target: Path) -> str:
    """Write the build context to the tar file `target`; returns the Dockerfile's name inside it.

    Times and owners are left out, so that the same files make the same layers.
    """
    with tarfile.open(target, "w") as tar:
        for entry in [*files(recipe, root), *extras(recipe, root)]:
            info = tarfile.TarInfo(entry.name)
            info.mode = 0o755 if entry.executable else 0o644
            info.size = entry.path.stat().st_size
            with entry.path.open("rb") as source:
                tar.addfile(info, source)
        for folder in recipe.extras:  # COPY of a folder that is not in the context is an error
            info = tarfile.TarInfo(_name(recipe, root, root / folder))
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info, io.BytesIO())
    return _name(recipe, root, root / recipe.dockerfile)


def _walk(start: Path) -> Iterator[Path]:
    if start.is_file():
        yield start
        return
    if not start.is_dir():
        return
    for path in start.iterdir():
        if path.suffix in _IGNORED_SUFFIXES or path.name in _IGNORED_FOLDERS:
            continue
        if path.is_dir():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _entry(recipe: Recipe, root: Path, path: Path) -> Entry:
    return Entry(path, _name(recipe, root, path), bool(path.stat().st_mode & 0o100))


def _name(recipe: Recipe, root: Path, path: Path) -> str:
    return path.relative_to(root / recipe.context).as_posix()
