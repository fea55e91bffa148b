"""`NAME=value` arguments: the same variables as make's, for those who call `python -m runner` directly.

They are put into the environment before the settings are read, so that there is one way in and one place where a
value is judged. An argument that is no variable of ours is a problem like any other: found before anything starts.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

from runner.base.errors import ConfigurationError
from runner.base.settings import variables


def apply(arguments: Sequence[str]) -> None:
    """Set each `NAME=value` in this process's environment. Raises ConfigurationError naming every wrong argument."""
    known = [variable.name for variable in variables()]
    problems: list[str] = []
    given: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals:
            problems.append(f"{argument!r} is not NAME=value")
        elif name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            problems.append(
                f"{argument!r}: there is no variable {name}{meant} (`python -m runner settings` lists them)"
            )
        else:
            given[name.upper()] = value
    if problems:
        raise ConfigurationError(problems)
    os.environ.update(given)
