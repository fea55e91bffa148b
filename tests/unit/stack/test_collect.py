"""What is copied out of a container: regular files only, inside the target, without secrets."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest
from docker.errors import NotFound

from runner.stack.collect import copy_out, put_file
from runner.stack.redact import Redactor, secret_values


class FakeContainer:
    """Answers `get_archive` from a tar made of `members`, and keeps what `put_archive` was given."""

    def __init__(self, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        self._members = members
        self.put: tuple[str, bytes] | None = None

    def get_archive(self, path: str) -> tuple[Iterator[bytes], dict[str, str]]:
        if not self._members:
            raise NotFound(path)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for info, data in self._members:
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        raw = buffer.getvalue()
        return iter([raw[:700], raw[700:]]), {}

    def put_archive(self, path: str, data: bytes) -> bool:
        self.put = (path, data)
        return True


def _file(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


def _link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = tarfile.SYMTYPE
    info.linkname = target
    return info, b""


def _copy(container: FakeContainer, target: Path, redact: Redactor) -> list[Path]:
    return copy_out(container, PurePosixPath("/artifacts/cells"), target, redact)  # type: ignore[arg-type]


def test_files_arrive_below_the_target_without_the_source_folder_name(tmp_path: Path) -> None:
    written = _copy(FakeContainer([_file("cells/qwen3/v1-openai/ledger.jsonl", b"{}\n")]), tmp_path, Redactor([]))
    assert written == [tmp_path / "qwen3/v1-openai/ledger.jsonl"]
    assert written[0].read_bytes() == b"{}\n"


def test_secrets_are_replaced_by_value(tmp_path: Path) -> None:
    redact = Redactor(secret_values({"HF_TOKEN": "hf_sentinel_value", "HOME": "/somewhere/else", "API_KEY": "short"}))
    written = _copy(
        FakeContainer([_file("cells/a.log", b"x hf_sentinel_value y /somewhere/else short")]), tmp_path, redact
    )
    assert written[0].read_bytes() == b"x [redacted] y /somewhere/else short"


def test_links_and_paths_that_climb_are_left_out(tmp_path: Path) -> None:
    members = [_link("cells/evil", "/etc/passwd"), _file("cells/../../up.txt", b"no"), _file("cells/ok.txt", b"yes")]
    assert _copy(FakeContainer(members), tmp_path / "in", Redactor([])) == [tmp_path / "in/ok.txt"]
    assert not (tmp_path / "up.txt").exists()


def test_a_directory_that_is_not_there_gives_nothing(tmp_path: Path) -> None:
    assert _copy(FakeContainer([]), tmp_path, Redactor([])) == []


def test_a_file_put_in_belongs_to_the_containers_user() -> None:
    container = FakeContainer([])
    put_file(container, PurePosixPath("/artifacts/plan.json"), b"{}")  # type: ignore[arg-type]
    assert container.put is not None
    folder, raw = container.put
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        (member,) = archive.getmembers()
    assert (folder, member.name, member.uid, member.mode) == ("/artifacts", "plan.json", 10001, 0o644)


@pytest.mark.parametrize("name", ["HF_TOKEN", "GITHUB_TOKEN", "TOKEN", "TOKENS", "CI_JOB_TOKEN_2", "my_token"])
def test_a_token_is_a_secret_and_a_tokenizer_is_a_place(name: str) -> None:
    found = secret_values({name: "hf_sentinel_value", "TOKENIZER": "/models/qwen3", "TITO_TOKENIZER": "/models/qwen3"})
    assert found == ["hf_sentinel_value"]
