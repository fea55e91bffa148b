"""Docker's words about a port that somebody else holds, an old engine's and a new one's, become the port."""

from __future__ import annotations

import pytest

from runner.stack.ports import explain, is_race, taken

RANGES = {"session-v1": (21000, 21002), "session-v2": (21003, 21005)}
PROCESS = (
    "Error response from daemon: driver failed programming external connectivity on endpoint tito-session-v1-2 (745b):"
    " Error starting userland proxy: listen tcp4 127.0.0.1:21001: bind: address already in use"
)
CONTAINER = (
    "Error response from daemon: driver failed programming external connectivity on endpoint x (d98c):"
    " Bind for 127.0.0.1:21004 failed: port is already allocated"
)
NEWER = (
    "Error response from daemon: failed to set up container networking: driver failed programming external connectivity"
    " on endpoint x (d98c): failed to bind host port 127.0.0.1:21004/tcp: address already in use"
)
RANGE = "driver failed programming external connectivity on endpoint x (d5de): all ports are allocated"


@pytest.mark.parametrize("said", [PROCESS, CONTAINER, NEWER, RANGE])
def test_every_wording_is_known_as_a_race(said: str) -> None:
    assert is_race(said)


def test_other_errors_are_no_race() -> None:
    assert not is_race("Error response from daemon: No such image: tito-e2e/runner:dev")


@pytest.mark.parametrize(
    ("said", "held", "busy"),
    [
        pytest.param(PROCESS, [21000], [21001], id="a process has it"),
        pytest.param(CONTAINER, [], [21004], id="a container has it"),
        pytest.param(NEWER, [], [21004], id="a newer engine"),
        pytest.param(RANGE, [21000, 21002, 21003, 21004, 21005], [21001], id="left over of the range"),
        pytest.param(RANGE, [21000, 21002], [21001, 21003, 21004, 21005], id="more than one may be it"),
        pytest.param("listen tcp4 127.0.0.1:8080: address already in use", [21000], [21001], id="a foreign port"),
    ],
)
def test_the_busy_port_is_found(said: str, held: list[int], busy: list[int]) -> None:
    found = taken(said, RANGES, held)
    assert found[: len(busy)] == busy


def test_the_message_names_the_port_the_ranges_and_a_line_that_shows_the_holder() -> None:
    message, hint = explain(PROCESS, RANGES, [])
    assert message.startswith("port 21001 is taken by somebody else")
    assert "session-v1 21000-21002, session-v2 21003-21005" in message
    assert "sport = :21001" in hint
    vague, _ = explain(RANGE, RANGES, [21000, 21001, 21002, 21003])
    assert vague.startswith("of the ports 21004, 21005 at least one is taken")
