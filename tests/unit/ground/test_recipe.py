"""What an image is made from: the hash follows exactly that, and a build sees exactly that."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from runner.base.errors import InfrastructureError
from runner.ground.recipe import RECIPES, Recipe, archive, digest, files

RECIPE = Recipe(
    "engine",
    context="images/engine",
    dockerfile="images/engine/Dockerfile",
    counts=("images/engine",),
    without=("images/engine/wheels", "images/engine/tests"),
    extras=("images/engine/wheels",),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one image."""
    for name, text in {
        "Dockerfile": "FROM x",
        "serve/start.py": "start",
        "serve/run.sh": "run",
        "wheels/torch.whl": "wheel",
        "tests/test_it.py": "test",
        "serve/__pycache__/start.cpython-311.pyc": "compiled",
    }.items():
        path = tmp_path / "images/engine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "images/engine/serve/run.sh").chmod(0o755)
    (tmp_path / "README.md").write_text("not in any image")
    return tmp_path


def test_only_files_that_count_are_listed(root: Path) -> None:
    assert [entry.name for entry in files(RECIPE, root)] == ["Dockerfile", "serve/run.sh", "serve/start.py"]


@pytest.mark.parametrize(
    "change",
    [
        "README.md",
        "images/engine/wheels/other.whl",
        "images/engine/tests/test_it.py",
        "images/engine/serve/x.pyc",
        "images/engine/.git/HEAD",
    ],
)
def test_what_does_not_count_leaves_the_hash(root: Path, change: str) -> None:
    before = digest(RECIPE, root, {})
    (root / change).parent.mkdir(exist_ok=True)
    (root / change).write_text("changed")
    assert digest(RECIPE, root, {}) == before


def test_content_name_mode_and_arguments_change_the_hash(root: Path) -> None:
    seen = {
        digest(RECIPE, root, {}),
        digest(RECIPE, root, {"BASE_IMAGE": "a"}),
        digest(RECIPE, root, {"BASE_IMAGE": "b"}),
    }
    start = root / "images/engine/serve/start.py"
    start.write_text("changed")
    seen.add(digest(RECIPE, root, {}))
    start.chmod(0o755)
    seen.add(digest(RECIPE, root, {}))
    start.rename(start.with_name("begin.py"))
    seen.add(digest(RECIPE, root, {}))
    assert len(seen) == 6


def test_the_hash_is_the_same_wherever_the_repository_lies_and_whenever_it_was_checked_out(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "repo"
    for entry in files(RECIPE, root):
        target = other / RECIPE.context / entry.name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(entry.path.read_bytes())
        target.chmod(0o775 if entry.executable else 0o600)  # another umask
    assert digest(RECIPE, other, {}) == digest(RECIPE, root, {})


def test_moving_bytes_from_one_file_to_the_next_is_noticed(root: Path) -> None:
    folder = root / "images/engine/serve"
    (folder / "a").write_text("xy")
    (folder / "b").write_text("z")
    before = digest(RECIPE, root, {})
    (folder / "a").write_text("x")
    (folder / "b").write_text("yz")
    assert digest(RECIPE, root, {}) != before


def test_the_build_gets_what_counts_and_the_extras_and_nothing_else(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "context.tar"
    assert archive(RECIPE, root, target) == "Dockerfile"
    with tarfile.open(target) as tar:
        members = {member.name: (member.mode, member.mtime, member.isdir()) for member in tar}
    assert members == {
        "Dockerfile": (0o644, 0, False),
        "serve/run.sh": (0o755, 0, False),
        "serve/start.py": (0o644, 0, False),
        "wheels/torch.whl": (0o644, 0, False),
        "wheels": (0o755, 0, True),
    }


def test_an_extra_folder_is_there_for_copy_even_when_nothing_was_gathered(root: Path, tmp_path: Path) -> None:
    (root / "images/engine/wheels/torch.whl").unlink()
    (root / "images/engine/wheels").rmdir()
    archive(RECIPE, root, tmp_path / "context.tar")
    with tarfile.open(tmp_path / "context.tar") as tar:
        assert tar.getmember("wheels").isdir()


def test_a_context_at_the_root_names_files_from_there(root: Path, tmp_path: Path) -> None:
    whole = replace(RECIPE, context="", without=(), extras=(), counts=("images/engine/serve", "README.md"))
    assert archive(whole, root, tmp_path / "context.tar") == "images/engine/Dockerfile"
    with tarfile.open(tmp_path / "context.tar") as tar:
        assert tar.getnames() == ["README.md", "images/engine/serve/run.sh", "images/engine/serve/start.py"]


def test_something_that_is_not_there_is_named(root: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"engine is made from requirements\.lock, which is not there"):
        files(replace(RECIPE, counts=("images/engine", "requirements.lock")), root)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_every_dockerfile_of_the_project_counts_and_copies_only_what_its_build_gets(recipe: Recipe) -> None:
    root = Path(__file__).parents[3]
    names = {entry.name for entry in files(recipe, root)}
    dockerfile = (root / recipe.dockerfile).relative_to(root / recipe.context).as_posix()
    assert dockerfile in names
    sent = names | {Path(folder).relative_to(recipe.context).as_posix() + "/" for folder in recipe.extras}
    for source in _copied((root / recipe.dockerfile).read_text()):
        found = [name for name in sent if name == source or name.startswith(f"{source.rstrip('/')}/")]
        assert found or source == ".", f"COPY {source} of {recipe.dockerfile} is not among what the build gets"


def _copied(dockerfile: str) -> list[str]:
    lines = dockerfile.replace("\\\n", " ").splitlines()
    copies = [line.split()[1:] for line in lines if line.startswith("COPY ") and "--from=" not in line]
    return [word for words in copies for word in words[:-1] if not word.startswith("--")]
