"""Secrets are taken out by value, in the one place where files and log lines leave the containers.

Values, not names: a token that a stack trace prints carries no name. Which values are secret is said by the names of
the environment variables that hold them. Values shorter than eight characters are not looked for: replacing them would
destroy ordinary text, and no credential is that short.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

_SECRET_NAME = re.compile(r"(TOKEN(?!I[SZ])|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL|PRIVATE_KEY)", re.IGNORECASE)
_SHORTEST = 8
_MASK = b"[redacted]"


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """The values of all variables whose name says that they are secret, long ones first."""
    values = {value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST}
    return sorted(values, key=len, reverse=True)


def _spellings(value: str) -> set[str]:
    """The value as it is, and as JSON, HTML and a URL spell it."""
    in_json = {json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    in_url = {quote(value, safe=safe, errors="surrogateescape") for safe in ("/", "")}
    return {value, *in_json, *in_url, html.escape(value), html.escape(value, quote=False)}


class Redactor:
    """Replaces every occurrence of the given values in bytes, in every spelling that artifacts have."""

    def __init__(self, values: Iterable[str]) -> None:
        texts = sorted({text for value in values for text in _spellings(value)}, key=len, reverse=True)
        literals = [re.escape(text.encode("utf-8", "surrogateescape")) for text in texts]
        self._pattern = re.compile(b"|".join(literals)) if literals else None

    def __call__(self, data: bytes) -> bytes:
        """`data` without the secrets."""
        return data if self._pattern is None else self._pattern.sub(_MASK, data)
