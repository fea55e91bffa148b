"""The last look before anything is judged or reported: no secret stays in any file of the run, nor in what is shown.

Logs and copied files are cleaned as they come; this is for what was written in this process, and for what a cleaner on
the way did not know. Reports are made from cleaned evidence afterwards, so that nothing can come back through them.
"""

from __future__ import annotations

from pathlib import Path

from runner.base.events import Event, NoteEvent, from_line, to_line
from runner.stack.redact import Redactor


def without_secrets(event: Event, redact: Redactor) -> Event:
    """The event as it may be shown and kept."""
    line = to_line(event).encode()
    clean = redact(line)
    if clean == line:
        return event
    return from_line(clean.decode()) or NoteEvent(message="(an event is left out: it cannot be shown without a secret)")


def clean(directory: Path, redact: Redactor) -> list[Path]:
    """Take the secrets out of every file below `directory`; returns the files that had one. Links are left alone."""
    changed = []
    for path in sorted(directory.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        cleaned = redact(data)
        if cleaned != data:
            beside = path.with_name(f".{path.name}.clean")
            beside.write_bytes(cleaned)
            beside.chmod(path.stat().st_mode & 0o777)
            beside.replace(path)
            changed.append(path)
    return changed
