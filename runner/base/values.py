"""How the text of an environment variable becomes a value, and what is said of one that cannot.

Each function is a validator of `runner.base.settings`: it looks at one value alone. What values mean together is
decided there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runner.base.terms import CellId, Lane, Role

ALL = "all"
"""As a family or lane: every one that there is. Naming none by name, it may include some that cannot run."""

_SHARD = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)\Z")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.]*(-[a-z0-9_.]+)*\Z")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*\Z")
_URL = re.compile(r"https?://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?\Z")
_ANTHROPIC_ON_V1 = "Anthropic verification requires session server v2 (use v2-anthropic)"


def _items(value: object) -> list[str]:
    items = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Sequence) else [value]
    names = [str(item).strip() for item in items]
    if "" in names:
        raise ValueError("has an empty item")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"names {', '.join(doubled)} twice")
    return names


def names(value: object) -> tuple[str, ...]:
    """Family or scenario names, comma separated, or `all` alone. Raises ValueError saying what is wrong."""
    names = _items(value)
    wrong = [name for name in names if not _NAME.match(name)]
    if wrong:
        raise ValueError(f"{', '.join(map(repr, wrong))} is not a name")
    if ALL in names and len(names) > 1:
        raise ValueError(f"{ALL!r} stands alone")
    return tuple(names)


def lanes(value: object) -> tuple[Lane, ...]:
    """Lanes, comma separated; `all` is each of them. Raises ValueError saying what is wrong."""
    names = _items(value)
    if names == [ALL]:
        return tuple(Lane)
    problems = []
    for name in names:
        if name == "v1-anthropic":
            problems.append(_ANTHROPIC_ON_V1)
        elif name not in tuple(Lane):
            problems.append(f"{name!r} is not a lane")
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(Lane(name) for name in names)


def cells(value: object) -> tuple[CellId, ...]:
    """Cell ids, comma separated. Raises ValueError saying what is wrong."""
    cells, problems = [], []
    for name in _items(value):
        if name.split("/")[1:2] == ["v1-anthropic"]:
            problems.append(_ANTHROPIC_ON_V1)
            continue
        try:
            cells.append(CellId.parse(name))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise ValueError("; ".join(problems))
    return tuple(cells)


def roles(value: object) -> tuple[Role, ...] | None:
    """Append roles, comma separated, *tool* among them. Raises ValueError saying what is wrong."""
    if value is None:
        return None
    names = _items(value)
    wrong = [name for name in names if name not in tuple(Role)]
    if wrong:
        raise ValueError(f"{', '.join(map(repr, wrong))} is not a role")
    if Role.TOOL not in names:
        raise ValueError("leaves out 'tool', without which there is nothing to verify with tools")
    return tuple(Role(name) for name in names)


def gpus(value: object) -> tuple[int, ...]:
    """Device indices, comma separated, each once. Raises ValueError saying what is wrong."""
    names = _items(value)
    wrong = [name for name in names if not name.isascii() or not name.isdigit()]
    if wrong:
        raise ValueError(f"{', '.join(map(repr, wrong))} is not a device index")
    return tuple(int(name) for name in names)


def shard(value: object) -> str:
    """`i/n` with 1 <= i <= n, as it was written. Raises ValueError saying what is wrong."""
    match = _SHARD.match(str(value))
    if not match:
        raise ValueError("is not i/n")
    if int(match[1]) > int(match[2]):
        raise ValueError(f"there is no part {match[1]} of {match[2]}")
    return str(value)


def switched_on(value: object) -> bool:
    """How CI systems say yes: anything but 0, false, no and off."""
    return str(value).lower() not in ("0", "false", "no", "off")


def image(value: object) -> str:
    """An image reference. Raises ValueError saying what is wrong."""
    if not _IMAGE.match(str(value)):
        raise ValueError("is not an image reference")
    return str(value)


def base_url(value: object) -> str:
    """A plain base URL, without a slash at its end. Raises ValueError saying what is wrong."""
    if not _URL.match(str(value)):
        raise ValueError("is not a plain base URL (credentials, a query or a fragment have no place in it)")
    return str(value).rstrip("/")
