"""Several session servers per version: a container, a port and an id of its own each, and samples spread over them."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable

from runner.stack.ports import Ranges
from tests.container.conftest import Left, Start

CELLS = ("qwen3/v1-openai/baseline", "qwen3/v2-openai/baseline")
NAMES = ("session-v1-1", "session-v1-2", "session-v2-1", "session-v2-2")


def _start_of_a_range() -> int:
    """Below the ports that systems hand out by themselves."""
    return 20_000 + 10 * secrets.randbelow(1_000)


def test_samples_are_spread_over_workers_with_a_port_and_an_id_each(start: Start, left: Callable[[str], Left]) -> None:
    first = _start_of_a_range()
    ended = start(WORKERS="2", SESSION_SERVER_PORT=str(first), LANES="v1-openai,v2-openai", CYCLES="1").end()
    assert ended.code == 0, ended.stdout + ended.stderr
    told = json.loads((ended.run_dir / "leases/qwen3/workers.json").read_text())["services"]
    servers = [worker for service in told.values() for worker in service]
    assert tuple(worker["name"] for worker in servers) == NAMES
    published = {service: {int(w["published"].rsplit(":", 1)[1]) for w in found} for service, found in told.items()}
    assert published == {"session-v1": {first, first + 1}, "session-v2": {first + 2, first + 3}}
    ids = {worker["name"]: worker["instance_id"] for worker in servers}
    assert len(set(ids.values())) == 4

    for cell, service in zip(CELLS, told, strict=True):
        samples = ended.cell(cell)["samples"]
        assert {sample["worker"] for sample in samples} == {0, 1}
        for sample in samples:
            name = f"{service}-{sample['worker'] + 1}"
            assert sample["instance_id"] == ids[name]
            log = (ended.run_dir / f"logs/qwen3/{name}.log").read_text()
            assert sample["session_id"] in log, "driven where the ledger says"
            others = [other for other in NAMES if other != name]
            assert not any(
                sample["session_id"] in (ended.run_dir / f"logs/qwen3/{other}.log").read_text() for other in others
            ), "and nowhere else"
    states = json.loads((ended.run_dir / "leases/qwen3/states.json").read_text())
    assert set(NAMES) < set(states)
    assert all(f"http://127.0.0.1:{first + offset}" in ended.stderr for offset in range(4))
    assert not left(ended.run_id)
    assert start("gate", str(ended.run_dir)).end().code == 0


def test_one_busy_port_of_an_explicit_range_is_named_and_nothing_stays(
    start: Start, left: Callable[[str], Left]
) -> None:
    first = _start_of_a_range()
    ranges: Ranges = {"session-v1": (first, first + 1), "session-v2": (first + 2, first + 3)}
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", first + 1))
        holder.listen()
        ended = start(WORKERS="2", SESSION_SERVER_PORT=str(first)).end()
    assert ended.code == 3, ended.stdout + ended.stderr
    assert f"port {first + 1} is taken by somebody else" in ended.stderr
    assert f"session-v1 {ranges['session-v1'][0]}-{ranges['session-v1'][1]}" in ended.stderr
    assert f"ss -ltnp 'sport = :{first + 1}'" in ended.stderr
    cell = ended.cell(CELLS[0])
    assert cell["outcome"] == "infra"
    assert f"port {first + 1}" in cell["reasons"][0]["message"]
    assert not left(ended.run_id)
