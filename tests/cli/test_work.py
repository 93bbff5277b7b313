"""`timerd work`: what a command gets, and how its exit code ends the delivery."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.sdk.fake_server import FakeServer, deliver_of
from timerd.commands.execution import execute
from timerd.sdk.values.deliveries import DeliveredBatch, Delivery
from timerd.v1 import work_service_pb2 as wk


def delivery(payload: bytes = b"hello") -> Delivery:
    return Delivery(DeliveredBatch(deliver_of("q", [payload], first=7)), 0)


async def test_a_command_gets_the_payload_and_the_facts(capfd: pytest.CaptureFixture[str]) -> None:
    names = "TIMERD_TASK_ID TIMERD_DELIVERY_ID TIMERD_ATTEMPT TIMERD_FIRE_TIME TIMERD_QUEUE"
    facts = " ".join(f"${name}" for name in names.split())
    given = delivery()
    code, _ = await execute(f'cat; echo " {facts}"', given, keep_stdout_clean=False)
    expected = f"hello {given.task_id} {given.delivery_id} 1 2023-11-14T22:13:20.000Z q\n"
    assert (code, capfd.readouterr().out) == (0, expected)


async def test_exit_code_and_the_end_of_stderr_come_back(capfd: pytest.CaptureFixture[str]) -> None:
    script = "i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 75"
    code, tail = await execute(script, delivery(), keep_stdout_clean=False)
    assert code == 75
    assert tail.endswith("line 1999")
    assert len(tail) <= 4096
    assert "line 0\n" in capfd.readouterr().err


async def test_a_command_need_not_read_a_large_payload() -> None:
    assert await execute("exit 0", delivery(b"x" * 1_000_000), keep_stdout_clean=False) == (0, "")


async def test_a_cancelled_command_is_killed_with_what_it_started(tmp_path: Path) -> None:
    """But not with what has left its session, which may hold its pipes for ever."""
    script = "sleep 60 & echo $! >left; setsid sh -c 'echo $$ >gone; exec sleep 60' & sleep 60"
    running = asyncio.create_task(execute(f"cd {tmp_path}; {script}", delivery(), keep_stdout_clean=False))
    await until(lambda: (tmp_path / "gone").exists() and bool((tmp_path / "gone").read_text()))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 20)
    await until(lambda: not is_alive(tmp_path / "left"))
    end(tmp_path / "gone")


@pytest.mark.parametrize("code", [0, 7])
async def test_the_exit_of_the_command_decides_whatever_it_leaves_behind(tmp_path: Path, code: int) -> None:
    """What stays holds all three pipes."""
    script = f"cd {tmp_path}; sleep 60 & echo $! >left; echo last words >&2; exit {code}"
    assert await asyncio.wait_for(execute(script, delivery(b"x" * 1_000_000), keep_stdout_clean=True), 20) == (
        code,
        "last words",
    )
    assert is_alive(tmp_path / "left")
    end(tmp_path / "left")


async def test_what_stays_behind_may_speak_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is not ended by a pipe that nobody reads any more."""
    script = f"cd {tmp_path}; (while [ ! -e go ]; do sleep 0.01; done; echo later >&2; echo written >done) & exit 0"
    assert await execute(script, delivery(), keep_stdout_clean=False) == (0, "")
    (tmp_path / "go").touch()
    await until((tmp_path / "done").exists)
    await until(lambda: "later" in capfd.readouterr().err)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - processes tell nobody
            await asyncio.sleep(0.01)


def is_alive(file: Path) -> bool:
    """What ends is a zombie until the system's first process has seen it."""
    state = Path(f"/proc/{file.read_text().strip()}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def end(file: Path) -> None:
    os.kill(int(file.read_text()), signal.SIGKILL)


def settled(server: FakeServer) -> dict[str, int]:
    return {wk.SettleAction.Name(settle.action): len(settle.ack_tokens) // 64 for settle in server.work.settles}


def test_payloads_are_printed_and_acknowledged(terminal: Terminal, server: FakeServer) -> None:
    server.work.put(deliver_of("mails", [b"one", b"two"]))
    ran = terminal("work", "mails", "--count", "2")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert ran.err.startswith("timerd: The worker ")
    assert sorted(ran.out.splitlines()) == ["one", "two"]
    assert settled(server) == {"SETTLE_ACTION_ACK": 2}


def test_each_delivery_is_a_line_of_json(terminal: Terminal, server: FakeServer) -> None:
    server.work.put(deliver_of("mails", [b"one", b"\xff"]))
    lines = terminal("work", "mails", "--count", "2", "--json").lines
    assert [lines[0]["payload"], lines[1]["payload_base64"]] == ["one", "/w=="]
    assert (lines[0]["attempt"], lines[0]["labels"]) == (1, {"a": "b"})


@pytest.mark.parametrize(
    ("code", "action", "outcome"),
    [
        (0, "SETTLE_ACTION_ACK", "done"),
        (65, "SETTLE_ACTION_REJECT", "rejected"),
        (75, "SETTLE_ACTION_NACK", "failed"),
        (1, "SETTLE_ACTION_NACK", "failed"),
    ],
)
def test_the_exit_code_decides(terminal: Terminal, server: FakeServer, code: int, action: str, outcome: str) -> None:
    server.work.put(deliver_of("mails", [b"one"]))
    ran = terminal("work", "mails", "--count", "1", "--json", "--exec", f"echo noise; echo why >&2; exit {code}")
    assert ran.code == 0
    assert [(line["exit_code"], line["outcome"]) for line in ran.lines] == [(code, outcome)]
    assert settled(server) == {action: 1}
    assert server.work.settles[0].error == ("" if code == 0 else f"exit code {code}: why")


async def test_where_stdout_is_for_json_the_command_speaks_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert await execute("echo noise", delivery(), keep_stdout_clean=True) == (0, "")
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "noise\n")


def test_no_more_than_count_are_handled(terminal: Terminal, server: FakeServer) -> None:
    for first in range(5):
        server.work.put(deliver_of("mails", [b"one"], first=first))
    ran = terminal("work", "mails", "--count", "2", "--json")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 2
    assert settled(server)["SETTLE_ACTION_ACK"] >= 1
    acked = sum(len(settle.ack_tokens) // 64 for settle in server.work.settles if settle.action == 1)
    assert acked == 2
    assert json.loads(ran.out.splitlines()[0])["queue"] == "mails"


def test_what_takes_longer_than_its_time_limit_is_ended_with_all_that_it_started(
    terminal: Terminal, server: FakeServer, tmp_path: Path
) -> None:
    server.work.put(deliver_of("mails", [b"one"]))
    command = f"sleep 3600 & echo $! >{tmp_path}/inner; wait"
    ran = terminal("work", "mails", "--count", "1", "--time-limit", "300ms", "--exec", command)
    assert ran.code == 0
    assert settled(server) == {"SETTLE_ACTION_NACK": 1}
    [settle] = server.work.settles
    assert settle.error == "the command had not ended after 0.3s, and was ended"
    assert f"attempt 1, failed: {settle.error}" in ran.err
    assert not is_alive(tmp_path / "inner")


@pytest.mark.parametrize("arguments", [("--exec", "true", "--time-limit", "0s"), ("--time-limit", "5s")])
def test_a_time_limit_of_nothing_is_refused(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    ran = terminal("work", "mails", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "--time-limit is for the command of --exec, and more than 0" in ran.err
