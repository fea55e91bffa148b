"""The constructor against what a server reads: missing, unknown, defaulted differently, each with its places."""

from __future__ import annotations

import os
from dataclasses import fields as fields_of
from pathlib import Path

import pytest

from runner.base.errors import ConfigurationError
from runner.base.terms import ExitCode
from runner.cli.contract import check_args
from runner.contract import arguments
from runner.contract.arguments import SessionServerArgs, session_server_args
from runner.contract.compare import Comparison, compare, fields, read_constructor
from runner.contract.flow import scan
from runner.contract.source import read_source

PUBLISHED_VERSION = "0.0.2"
PUBLISHED: dict[str, str | None] = {
    "miles_router_timeout": "600.0",
    "session_server_ip": None,
    "session_server_port": None,
    "hf_checkpoint": "None",
    "session_server_instance_id": "None",
    "chat_template_path": "None",
    "tito_model": "'default'",
    "apply_chat_template_kwargs": "None",
    "tito_allowed_append_roles": "None",
    "use_rollout_routing_replay": "False",
}
"""What `miles.rollout.session` of miles-rl 0.0.2 reads, gone through by hand: field -> fallback, None where required.

The build of images/session-server-miles compares the package that it installs with the constructor; the last test here
compares a package at hand with this list.
"""
SOURCE = os.environ.get("MILES_SESSION_SOURCE")
"""`miles/rollout/session` of an installed miles-rl."""

SERVER = """
def start(args, url):
    timeout = getattr(args, "timeout", 600.0)
    return args.host, args.port, timeout
"""
FITTING = "class Args:\n    host: str\n    port: int\n    timeout: float = 600.0\n"


def compared(tmp_path: Path, server: str = SERVER, constructor: str = FITTING, *, partial: bool = False) -> Comparison:
    """The comparison of this server with this constructor, called Args."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "server.py").write_text(server, encoding="utf-8")
    (tmp_path / "made.py").write_text(constructor, encoding="utf-8")
    return compare(
        scan(read_source(tmp_path / "source")), read_constructor(tmp_path / "made.py", "Args"), partial=partial
    )


def test_a_constructor_that_fits_has_no_problems(tmp_path: Path) -> None:
    assert compared(tmp_path).problems == ()


def test_a_function_can_be_the_constructor(tmp_path: Path) -> None:
    made = "def Args(host, *, port, timeout=600.0):\n    ...\n"
    assert compared(tmp_path, constructor=made).problems == ()


@pytest.mark.parametrize("name", ["host", "port", "timeout"])
def test_a_field_removed_from_the_constructor_is_named_with_where_it_is_read(tmp_path: Path, name: str) -> None:
    made = "\n".join(line for line in FITTING.splitlines() if f" {name}:" not in line)
    (problem,) = compared(tmp_path, constructor=made).problems
    assert problem.startswith(f"missing: {name} is not in the constructor")
    assert f"server.py:{3 if name == 'timeout' else 4}" in problem
    assert ("optional, default 600.0" if name == "timeout" else "required") in problem


def test_a_field_that_is_read_nowhere_is_named_with_its_place(tmp_path: Path) -> None:
    (problem,) = compared(tmp_path, constructor=FITTING + "    colour: str = 'red'\n").problems
    assert problem == "unknown: colour of the constructor (made.py:5) is read nowhere in this source"


@pytest.mark.parametrize("value", ["30.0", "None", "600"])
def test_another_default_is_named_with_both_places(tmp_path: Path, value: str) -> None:
    (problem,) = compared(tmp_path, constructor=FITTING.replace("600.0", value)).problems
    assert problem.startswith(f"defaulted differently: timeout is {value} in the constructor (made.py:4)")
    assert "600.0 at server.py:3" in problem


def test_the_same_value_written_differently_is_the_same_default(tmp_path: Path) -> None:
    assert compared(tmp_path, constructor=FITTING.replace("600.0", "6e2")).problems == ()


def test_a_constructor_may_demand_what_the_server_defaults(tmp_path: Path) -> None:
    assert compared(tmp_path, constructor=FITTING.replace(" = 600.0", "")).problems == ()


def test_a_server_that_disagrees_with_itself_is_named(tmp_path: Path) -> None:
    server = SERVER + 'def again(args):\n    return getattr(args, "timeout", 30.0)\n'
    problems = compared(tmp_path, server).problems
    assert any("the server itself disagrees" in one and "30.0 at server.py:6" in one for one in problems)


def test_a_use_that_cannot_be_followed_fails_unless_partial_is_asked_for(tmp_path: Path) -> None:
    server = SERVER + "import x\ndef more(args):\n    x.load(args)\n"
    (problem,) = compared(tmp_path, server).problems
    assert problem.startswith("cannot be followed: args at server.py:7 goes to x.load()")
    (tmp_path / "again").mkdir()
    assert compared(tmp_path / "again", server, partial=True).problems == ()


def test_a_source_that_reads_nothing_is_no_success(tmp_path: Path) -> None:
    problems = compared(tmp_path, "def start(args):\n    pass\n").problems
    assert problems[0] == "no field is read off args in 1 files; is this the server's source?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Other:\n    a: int\n", "defines no class and no function 'Args'"),
        ("def Args(**given):\n    ...\n", "takes \\*\\*given, so it owns no fields"),
        ("class (:\n", "cannot be read"),
    ],
)
def test_a_constructor_that_owns_no_fields_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        compared(tmp_path, constructor=text)


def published(without: str | None = None) -> str:
    """A server that reads what the published one reads, but for one field."""
    lines = ["def start(args):"]
    for name, default in PUBLISHED.items():
        if name != without:
            lines.append(f"    args.{name}" if default is None else f'    getattr(args, "{name}", {default})')
    return "\n".join(lines) + "\n"


def test_the_constructor_gives_exactly_what_the_published_server_reads(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(published(), encoding="utf-8")
    parameters = read_constructor(Path(arguments.__file__), "SessionServerArgs")
    assert compare(scan(read_source(tmp_path)), parameters).problems == ()
    assert {one.name for one in parameters} == {one.name for one in fields_of(SessionServerArgs)} == set(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_field_of_the_constructor_is_held_by_the_published_list(tmp_path: Path, name: str) -> None:
    (tmp_path / "server.py").write_text(published(without=name), encoding="utf-8")
    parameters = read_constructor(Path(arguments.__file__), "SessionServerArgs")
    (problem,) = compare(scan(read_source(tmp_path)), parameters).problems
    assert problem.startswith(f"unknown: {name} ")


def given() -> dict[str, object]:
    """Values for all fields that must be given."""
    return {
        "hf_checkpoint": "/models/qwen3",
        "tito_model": "qwen3",
        "session_server_ip": "127.0.0.1",
        "session_server_port": 8080,
        "session_server_instance_id": "one",
        "tito_allowed_append_roles": ["tool"],
    }


def test_the_constructor_makes_args_with_every_field() -> None:
    made = session_server_args(given())
    assert (made.hf_checkpoint, made.miles_router_timeout) == ("/models/qwen3", 600.0)
    assert all(hasattr(made, name) for name in PUBLISHED)


@pytest.mark.parametrize("name", given())
def test_a_value_that_is_missing_is_named_before_anything_starts(name: str) -> None:
    values = given()
    del values[name]
    with pytest.raises(ConfigurationError, match=f"session-server args: {name} is missing"):
        session_server_args(values)


def test_every_missing_and_unknown_value_is_named_at_once() -> None:
    values = given() | {"miles_router_timeouts": 3.0, "colour": "red"}
    del values["tito_model"]
    with pytest.raises(ConfigurationError) as raised:
        session_server_args(values)
    assert raised.value.problems == [
        "session-server args: tito_model is missing; the server reads it",
        "session-server args: miles_router_timeouts is no field that the server reads; did you mean"
        " miles_router_timeout?",
        "session-server args: colour is no field that the server reads",
    ]


def test_the_command_ends_with_1_and_names_field_and_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = published() + "def samples(args):\n    return args.sglang_speculative_algorithm\n"
    (tmp_path / "server.py").write_text(text, encoding="utf-8")
    code = check_args(tmp_path, constructor=None, names=("args",), partial=False)
    said = capsys.readouterr().out
    assert code is ExitCode.VERIFICATION_FAILED
    assert "missing: sglang_speculative_algorithm is not in the constructor (required, read at server.py:13)" in said


def test_the_command_lists_every_field_and_ends_with_0_where_all_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server.py").write_text(published(), encoding="utf-8")
    assert check_args(tmp_path, constructor=None, names=("args",), partial=False) is ExitCode.OK
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in PUBLISHED)
    assert "SessionServerArgs gives exactly these fields" in said


def test_another_constructor_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "server.py").write_text(SERVER, encoding="utf-8")
    made = tmp_path / "made.py"
    made.write_text(FITTING, encoding="utf-8")
    assert check_args(tmp_path / "source", constructor=f"{made}:Args", names=("args",), partial=False) is ExitCode.OK
    with pytest.raises(ConfigurationError, match="is not FILE:NAME"):
        check_args(tmp_path / "source", constructor="made", names=("args",), partial=False)


@pytest.mark.skipif(not SOURCE, reason="MILES_SESSION_SOURCE does not name an installed miles/rollout/session")
def test_the_published_server_reads_what_was_recorded() -> None:
    found = scan(read_source(Path(str(SOURCE))))
    assert found.unreadable == (), f"miles-rl {PUBLISHED_VERSION} hands its args on where they are not followed"
    assert {one.name: None if one.required else one.defaults[0] for one in fields(found)} == PUBLISHED
