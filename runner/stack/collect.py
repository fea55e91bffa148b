"""Copy files into and out of containers through Docker's API: works with a remote engine and with ended containers."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import requests
from docker.errors import NotFound
from docker.models.containers import Container

from runner.stack.client import NoAnswerError
from runner.stack.redact import Redactor

_RUNNER_UID = 10001
_IN_MEMORY_BYTES = 8 * 1024 * 1024


def put_file(container: Container, path: PurePosixPath, data: bytes) -> None:
    """Write one file into a container (running or not), owned by the container's user, mode 0644."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path.name)
        info.size = len(data)
        info.mode = 0o644
        info.uid = info.gid = _RUNNER_UID
        archive.addfile(info, io.BytesIO(data))
    container.put_archive(str(path.parent), buffer.getvalue())


def copy_out(container: Container, source: PurePosixPath, target: Path, redact: Redactor) -> list[Path]:
    """Copy the directory `source` of a container into `target`, secrets taken out. Returns the files written.

    Only regular files and directories are taken: a link in a container must not point a reader of the artifacts at
    something on the host. A directory that is not there gives an empty list.
    """
    try:
        chunks, _ = container.get_archive(str(source))
    except NotFound:
        return []
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spool:
        try:
            _spool(chunks, spool)
        except requests.RequestException as error:
            raise NoAnswerError(f"the connection to Docker broke while {source} was copied: {error}") from error
        with tarfile.open(fileobj=spool, mode="r") as archive:
            return _unpack(archive, source, target, redact)


def _spool(chunks: Iterable[bytes], spool: tempfile.SpooledTemporaryFile[bytes]) -> None:
    for chunk in chunks:
        spool.write(chunk)
    spool.seek(0)


def _unpack(archive: tarfile.TarFile, source: PurePosixPath, target: Path, redact: Redactor) -> list[Path]:
    written: list[Path] = []
    for member in archive:
        inside = PurePosixPath(member.name).relative_to(source.name)
        if not member.isfile() or ".." in inside.parts:
            continue
        content = archive.extractfile(member)
        if content is None:
            continue
        path = target.joinpath(*inside.parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(redact(content.read()))
        written.append(path)
    return written
