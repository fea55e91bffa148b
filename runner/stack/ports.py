"""A published port that somebody else holds: which one it is, and whether another try may help.

Nothing here looks whether a port is free: between the look and the use somebody may take it. Docker's own bind decides,
and what it said is read. Where Docker was to choose, losing such a race is chance, and it chooses again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

RACES = ("port is already allocated", "address already in use", "all ports are allocated")
"""What Docker says: another container has it; another process has it; of a range, all are taken."""

_NAMED = re.compile(r"127\.0\.0\.1:(\d{1,5})\b")

Ranges = Mapping[str, tuple[int, int]]
"""Session service -> first and last port of its workers."""


def is_race(said: str) -> bool:
    """Whether Docker failed over a port."""
    return any(text in said for text in RACES)


def taken(said: str, ranges: Ranges, held: Collection[int]) -> list[int]:
    """The ports of the `ranges` that somebody else holds, as far as Docker's message and our own ports show.

    Docker names the port, but where it went through a range in vain; what we do not hold ourselves is then left over.
    """
    wanted = {port for first, last in ranges.values() for port in range(first, last + 1)}
    named = {int(port) for port in _NAMED.findall(said)} & wanted
    return sorted(named or wanted - set(held))


def explain(said: str, ranges: Ranges, held: Collection[int]) -> tuple[str, str]:
    """Message and hint for a person, where the ports were given by SESSION_SERVER_PORT."""
    busy = taken(said, ranges, held)
    shown = ", ".join(f"{service} {first}-{last}" for service, (first, last) in ranges.items())
    which = f"port {busy[0]} is" if len(busy) == 1 else f"of the ports {', '.join(map(str, busy))} at least one is"
    return (
        f"{which} taken by somebody else; SESSION_SERVER_PORT asks for {shown} on 127.0.0.1",
        f"ss -ltnp 'sport = :{busy[0]}'   # who holds it; or set another SESSION_SERVER_PORT, or unset it",
    )
