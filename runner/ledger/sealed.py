"""Secrets are taken out of a ledger without making it look tampered with, and without hiding that it was done.

A ledger's trailer holds the hash of its lines, so that a changed line is seen. What takes a secret out changes lines on
purpose, after the writer has closed the file: a sound ledger gets a line that says so, with the writer's own hash, and
a trailer that fits again. A ledger that was unfinished or damaged stays exactly that. Only texts are looked at: digits
of a token id or a log-prob are no secret.
"""

from __future__ import annotations

import hashlib

import orjson
from pydantic import JsonValue

from runner.ledger.reader import parse_ledger
from runner.ledger.records import RECORD_ADAPTER, RedactedRecord, Trailer
from runner.ledger.writer import encode
from runner.stack.redact import Redactor

_HEADER = b'{"kind":"header"'


class Sealing(Redactor):
    """A redactor that knows ledgers by their first bytes."""

    def __call__(self, data: bytes) -> bytes:
        """`data` without the secrets; a ledger that was sound is sound afterwards."""
        clean = super().__call__(data)
        if clean == data or not data.startswith(_HEADER):
            return clean
        ledger = parse_ledger(data, path="")
        if ledger.damaged:
            return clean
        *lines, rest = data.split(b"\n")
        if ledger.trailer is not None:
            lines.pop()
        body = b"".join(self._line(line) for line in lines)
        if ledger.trailer is None:
            return body + super().__call__(rest)
        return body + self._end(body, len(lines), ledger.trailer)

    def _line(self, line: bytes) -> bytes:
        if super().__call__(line) == line:
            return line + b"\n"
        return encode(RECORD_ADAPTER.validate_python(self._texts(orjson.loads(line))))

    def _texts(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return super().__call__(value.encode()).decode()
            case list():
                return [self._texts(item) for item in value]
            case dict():
                return {key: self._texts(item) for key, item in value.items()}
            case _:
                return value

    def _end(self, body: bytes, lines: int, trailer: Trailer) -> bytes:
        said = encode(RedactedRecord(at=trailer.ended_at, written_sha256=trailer.sha256))
        sha256 = hashlib.sha256(body + said).hexdigest()
        return said + encode(Trailer(records=lines + 1, sha256=sha256, ended_at=trailer.ended_at))
