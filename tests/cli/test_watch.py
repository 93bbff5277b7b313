"""`--watch`: rounds one below the other in a pipe, in one place of a terminal, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.cli.conftest import Terminal
from tests.cli.served import PATIENCE_S, TIMERD
from tests.sdk.fake_server import FakeServer
from timerd.commands.failures import CommandFailure
from timerd.commands.watch import Write, repeat_below, with_seconds
from timerd.testing import Server


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        (["list", "--watch"], ["list", "--watch=2"]),
        (["list", "--watch", "5", "--queue", "q"], ["list", "--watch=5", "--queue", "q"]),
        (["list", "--watch", "0.5"], ["list", "--watch=0.5"]),
        (["list", "--watch=7"], ["list", "--watch=7"]),
        (["get", "--watch", "A1"], ["get", "--watch=2", "A1"]),
        (["partition", "--watch", "1893456000000"], ["partition", "--watch=2", "1893456000000"]),
        (["schedule", "q", "--in", "1s", "--", "--watch", "5"], ["schedule", "q", "--in", "1s", "--", "--watch", "5"]),
    ],
)
def test_seconds_may_be_left_out(typed: list[str], parsed: list[str]) -> None:
    assert with_seconds(typed) == parsed


@pytest.mark.parametrize("seconds", ["0", "0.01", "99999", "soon"])
def test_what_is_no_number_of_seconds_is_refused(terminal: Terminal, server: FakeServer, seconds: str) -> None:
    ran = terminal("list", f"--watch={seconds}")
    assert (ran.code, ran.out) == (2, "")
    assert f"--watch {seconds}: give seconds from 0.1 to 86400, or leave them out." in ran.err


def test_where_nothing_is_shown_again_there_is_no_such_option(terminal: Terminal) -> None:
    ran = terminal("cancel", "A1", "--watch")
    assert (ran.code, ran.out) == (2, "")
    assert "No such option: --watch" in ran.err


def test_a_failure_ends_the_first_round_only(capsys: pytest.CaptureFixture[str]) -> None:
    rounds: Iterator[str | None] = iter(["one", None, "three"])

    async def one(write: Write) -> None:
        said = next(rounds, "over")
        if said == "over":
            raise asyncio.CancelledError
        if said is None:
            raise CommandFailure("gone for a moment")
        write(said, "")

    with suppress(asyncio.CancelledError):
        asyncio.run(repeat_below(one, 0.0))
    said = capsys.readouterr()
    assert (said.out.split(), said.err) == (["one", "three"], "timerd: gone for a moment\n")
    rounds = iter([None])
    with pytest.raises(CommandFailure, match="gone for a moment"):
        asyncio.run(repeat_below(one, 0.0))


@contextmanager
def watching(server: Server, output: int) -> Iterator[subprocess.Popen[bytes]]:
    """`timerd list --watch` as a process that prints there."""
    command = [*TIMERD, "list", "--watch", "0.1", "--server", server.address]
    with subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(descriptor: int, word: bytes, times: int) -> bytes:
    """What is printed until `word` has come so often."""
    read = b""
    while read.count(word) < times:
        assert select.select([descriptor], [], [], PATIENCE_S)[0], f"nothing more comes after {read!r}"
        more = os.read(descriptor, 65_536)
        assert more, f"it ended after {read!r}"
        assert len(read) < 100_000, f"{word!r} does not come in {read[:500]!r}"
        read += more
    return read


def test_into_a_pipe_each_round_is_whole_and_ctrl_c_is_a_good_end(terminal: Terminal, whole: Server) -> None:
    terminal("schedule", "mails", "hello", "--at", "2030-01-01T00:10:00Z")
    with watching(whole, subprocess.PIPE) as process:
        assert process.stdout is not None
        read = read_until(process.stdout.fileno(), b"hello", 3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert read.count(b"payload") >= 3
    assert b"\x1b" not in read
    assert (process.returncode, err) == (0, b"")


def test_on_a_terminal_each_round_takes_the_place_of_the_one_before(terminal: Terminal, whole: Server) -> None:
    terminal("schedule", "mails", "hello", "--at", "2030-01-01T00:10:00Z")
    ours, theirs = pty.openpty()
    with watching(whole, theirs) as process:
        os.close(theirs)
        read = read_until(ours, b"hello", 3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    # The cursor goes up again.
    assert b"\x1b[1A" in read
    assert (process.returncode, err) == (0, b"")
