"""`python -m serve`: start the engine. `python -m serve check`: the stubs. `python -m serve health`: is it ready."""

import os
import shlex
import sys

USAGE = "usage: python -m serve [start | check | health]"

# exit status for anything wrong before the engine starts, as for a wrong command line
UNUSABLE = 2


def start() -> int:  # noqa: RET503 - execve does not return
    """Check settings and stubs, say what is started, become the engine. Returns only when something is wrong."""
    from importlib.metadata import version

    from serve import check, command, settings

    try:
        check.quick()
        chosen = settings.load()
    except (check.StubMismatchError, settings.BadSettingsError) as error:
        print(f"engine: {error}", file=sys.stderr, flush=True)
        return UNUSABLE
    arguments = [sys.executable, "-m", command.MODULE, *command.argv(chosen)]
    print(command.line(chosen, version("sglang")), flush=True)
    print(f"engine: {shlex.join(arguments)}", flush=True)
    os.execve(sys.executable, arguments, {**os.environ, **command.environment(chosen)})  # noqa: S606


def check_stubs() -> int:
    """Import all that the engine needs, then seal the result."""
    from serve import check, command

    os.environ.update(command.ENVIRONMENT)
    try:
        check.full()
    except check.StubMismatchError as error:
        print(f"stub check: {error}", file=sys.stderr, flush=True)
        return UNUSABLE
    check.seal()
    print(f"stub check: {len(check.MODULES)} modules import, sealed for {check.fingerprint()}", flush=True)
    return 0


def ask_health() -> int:
    """Exit status of the container health check."""
    from serve import health

    return health.main()


def main(words: list[str]) -> int:
    """Choose by the first word; none means start."""
    actions = {"start": start, "check": check_stubs, "health": ask_health}
    if len(words) > 1 or (words and words[0] not in actions):
        print(USAGE, file=sys.stderr)
        return UNUSABLE
    return actions[words[0] if words else "start"]()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
