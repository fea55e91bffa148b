"""`python -m start`: serve. `python -m start check`: only compare the installed server with the constructor."""

from __future__ import annotations

import sys
from importlib.metadata import version

from runner.base.errors import RunnerError
from runner.contract.arguments import SessionServerArgs, session_server_args
from start import contract
from start.environment import CoreVersion, Environment, read_environment


def arguments(environment: Environment) -> SessionServerArgs:
    """The server's args. Roles and template arguments are those that the server's own table has for the family."""
    from miles.utils.chat_template_utils import TITOTokenizerType, resolve_fixed_chat_template

    family = TITOTokenizerType.get_tokenizer_class(TITOTokenizerType(environment.tito_model))
    roles = environment.append_roles
    if roles is None:
        largest = max(family.SUPPORTED_TEMPLATES, key=lambda row: len(row.allowed_roles), default=None)
        roles = ("tool",) if largest is None else tuple(sorted(largest.allowed_roles))
    kwargs: dict[str, object] = {}
    if family.SUPPORTED_TEMPLATES:
        _, kwargs = resolve_fixed_chat_template(environment.tito_model, roles)
    return session_server_args(environment.values(list(roles), kwargs))


def serve() -> None:
    """Check everything that can be checked, then serve until a signal."""
    environment = read_environment()
    read = contract.check(contract.source())
    import uvicorn

    if environment.core_version is CoreVersion.V2:
        from start.serving import stand_in

        reason = f"miles-rl {version('miles-rl')} has no session tree: it serves the lane v1-openai only"
        print(reason, flush=True)
        app = stand_in(environment.instance_id, reason)
        uvicorn.run(app, host=environment.host, port=environment.port, log_level=environment.log_level)
        return
    args = arguments(environment)
    print(f"miles-rl {version('miles-rl')} reads {', '.join(read)}; given: {args}", flush=True)
    from miles.rollout.session.session_server import SessionServer

    from start.serving import add_ready

    server = SessionServer(args, environment.engine_url)
    add_ready(server.app, environment.engine_url)
    uvicorn.run(server.app, host=args.session_server_ip, port=args.session_server_port, log_level=environment.log_level)


def main() -> int:
    """0, or the exit code of the problem that is printed."""
    try:
        if sys.argv[1:] == ["check"]:
            print("the constructor gives what the server reads:", *contract.check(contract.source()))
        else:
            serve()
    except RunnerError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
