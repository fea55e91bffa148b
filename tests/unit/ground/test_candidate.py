"""An engine with another SGLang: what it declares decides, the tree is not touched, and what cannot be is named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.base.errors import ConfigurationError, InfrastructureError
from runner.ground import candidate
from runner.ground.candidate import RECIPE, checked_version, declared, locked, make, with_constraints
from runner.ground.pin import pinned_sglang
from runner.ground.recipe import RECIPES, digest
from runner.ground.shell import MISSING, Result
from runner.ground.site import Site

METADATA = """Metadata-Version: 2.4
Name: sglang
Version: 0.5.24
Requires-Dist: OpenAI==2.9.0
Requires-Dist: aiohttp
Requires-Dist: xgrammar==0.3.0
Requires-Dist: new_kernels>=1
Requires-Dist: tomli; python_version < "3.11"
Requires-Dist: winloop; sys_platform == "win32"
Requires-Dist: torch-npu; extra == "npu"

Description
"""

REQUIREMENTS = """# pinned by SGLang 0.5.23 itself
openai==2.8.0

aiohttp>=3
setuptools<82
"""
ALONE = "# Installed alone.\nmiles-tito-tokenizers==0.1.1\nsglang==0.5.23\nxgrammar==0.2.7\n"
LOCK = "# Written by lock.sh.\naiohttp==3.9 \\\n    --hash=sha256:a\nopenai==2.8.0 \\\n    --hash=sha256:b\n"
NONE_SUCH = """error: No solution found when resolving dependencies
  cause: Because there is no version of sglang==9.9.9 and you require
sglang==9.9.9, we can conclude that your requirements are unsatisfiable.
"""
CONFLICT = "error: No solution found when resolving dependencies\n  cause: Because a wants b<2 and c wants b>2.\n"


class Uv:
    """Installs a wheel that is only its metadata, and compiles a lock that says what it was given."""

    def __init__(self, **answers: Result) -> None:
        self.answers = answers
        self.calls: list[tuple[str, ...]] = []
        self.preferred: list[str] = []

    def __call__(self, argv: Sequence[str], **_: Any) -> Result:
        call = tuple(argv)
        self.calls.append(call)
        action = call[2]
        if action in self.answers:
            return self.answers[action]
        if action == "install":
            info = Path(call[call.index("--target") + 1]) / "sglang-0.5.24.dist-info"
            info.mkdir(parents=True)
            (info / "METADATA").write_text(METADATA)
        else:
            out = Path(call[call.index("--output-file") + 1])
            self.preferred.append(out.read_text())
            out.write_text(Path(call[call.index("--output-file") - 1]).read_text())
        return Result(call, 0)


def refused(stderr: str, code: int = 1) -> Result:
    return Result(("uv",), code, stderr=stderr)


@pytest.fixture
def tree(tmp_path: Path) -> Site:
    """A working tree with an engine of four files and a wheel."""
    folder = tmp_path / "tree" / RECIPE.context
    (folder / "wheels").mkdir(parents=True)
    texts = {"Dockerfile": "FROM x", "requirements.in": REQUIREMENTS, "requirements-alone.in": ALONE}
    for name, text in {**texts, "requirements.lock": LOCK, "wheels/torch-2-cp311.whl": "torch"}.items():
        (folder / name).write_text(text)
    return Site(root=tmp_path / "tree", state=tmp_path / "state")


def sum_of(folder: Path) -> str:
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts)
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in paths)).hexdigest()


def test_a_wheel_declares_what_holds_on_the_images_platform() -> None:
    found = declared("0.5.24", Uv())
    assert sorted(found.requirements) == ["aiohttp", "new-kernels", "openai", "xgrammar"]
    assert (found.constraint("openai"), found.constraint("Aiohttp"), found.constraint("tomli")) == ("==2.9.0", "", None)


def test_declared_constraints_replace_ours_and_the_rest_stays() -> None:
    of = declared("0.5.24", Uv())
    assert with_constraints(REQUIREMENTS, of, "0.5.23") == (
        "# pinned by SGLang 0.5.24 itself\nopenai==2.9.0\n\naiohttp\nsetuptools<82\n"
    )
    assert with_constraints(ALONE, of, "0.5.23").splitlines()[1:] == [
        "miles-tito-tokenizers==0.1.1",
        "sglang==0.5.24",
        "xgrammar==0.3.0",
    ]


def test_a_candidate_is_made_beside_the_tree_and_keeps_what_is_locked(tree: Site) -> None:
    uv = Uv()
    before = sum_of(tree.root)
    made = make("0.5.24", tree, declared("0.5.24", uv), uv)
    assert sum_of(tree.root) == before
    assert pinned_sglang(tree.root) == "0.5.23"
    assert pinned_sglang(made.site.root) == "0.5.24"
    assert (made.folder / "wheels" / "torch-2-cp311.whl").read_text() == "torch"
    assert uv.preferred == [LOCK, LOCK]
    assert (made.folder / "requirements.lock").read_text().startswith("# Written by lock.sh.\n")
    assert (made.locked["openai"], made.locked["sglang"]) == ("2.9.0", "0.5.24")


def test_a_candidate_of_the_same_files_is_another_image_than_the_working_one(tree: Site) -> None:
    assert RECIPE.tag("x") != RECIPES["engine-cpu"].tag("x")
    made = make("0.5.24", tree, declared("0.5.24", Uv()), Uv())
    assert digest(RECIPE, made.site.root, {}) != digest(RECIPE, tree.root, {})


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        pytest.param(NONE_SUCH, r"VERSION=9\.9\.9: the package index has no SGLang 9\.9\.9 \(Because", id="no version"),
        pytest.param(CONFLICT, r"SGLang 9\.9\.9 does not fit Python 3\.11", id="no wheel that fits"),
    ],
)
def test_a_version_that_cannot_be_had_is_named_as_wrong_usage(stderr: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        declared("9.9.9", Uv(install=refused(stderr)))


def test_packages_that_cannot_be_had_together_are_named(tree: Site) -> None:
    uv = Uv(compile=refused(CONFLICT))
    with pytest.raises(ConfigurationError, match="its requirements cannot be had together: Because a wants b<2"):
        make("0.5.24", tree, declared("0.5.24", uv), uv)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda uv, tree: declared("0.5.24", uv), id="fetching"),
        pytest.param(lambda uv, tree: make("0.5.24", tree, declared("0.5.24", Uv()), uv), id="resolving"),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refused("error: Request failed after 3 retries"), id="the index does not answer"),
        pytest.param(Result(("uv",), -15, stderr="No solution found", timed_out=True), id="time-out"),
        pytest.param(refused("uv: No such file", MISSING), id="no uv"),
    ],
)
def test_a_machine_that_cannot_ask_is_infrastructure(
    tree: Site, act: Callable[[Uv, Site], object], answer: Result
) -> None:
    with pytest.raises(InfrastructureError):
        act(Uv(install=answer, compile=answer), tree)


@pytest.mark.parametrize("text", ["", "latest", "0.5.x", "0.5.23 --index x"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a version of a package"):
        checked_version(text)


def test_a_lock_is_read_as_package_and_version() -> None:
    assert locked(LOCK) == {"aiohttp": "3.9", "openai": "2.8.0"}


def test_uv_is_asked_for_by_name_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InfrastructureError, match="uv, which resolves the packages"):
        declared("0.5.24", Uv())
    assert candidate.PYTHON == "3.11"
