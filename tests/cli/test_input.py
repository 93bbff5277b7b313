"""What is read from a file, a pipe, a fifo or stdin: each line once, as it comes, and never an empty input for done."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from tests.sdk.fake_server import FakeServer
from timerd.adapters.sqlite.backup import restore
from timerd.config import TlsConfig
from timerd.model.errors import StartupError
from timerd.services.transport.principals import read_principals
from timerd.services.transport.tls import read_tls
from timerd.v1 import task_pb2

LINES = b"".join(b"number %d\n" % index for index in range(2500))
EXPECTED = sorted(LINES.splitlines())


@contextmanager
def written(content: bytes) -> Iterator[int]:
    """The reading end of a pipe into which a thread writes."""
    reading, writing = os.pipe()
    writer = threading.Thread(target=write, args=(writing, content))
    writer.start()
    try:
        yield reading
    finally:
        os.close(reading)
        writer.join()


def write(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb", buffering=0) as file:
        try:
            for begin in range(0, len(content), 1000):
                file.write(content[begin : begin + 1000])
        except BrokenPipeError:
            return


@contextmanager
def as_stdin(handle: int) -> Iterator[None]:
    before = os.dup(0)
    os.dup2(handle, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_a_pipe_by_name_is_read_once(terminal: Terminal, server: FakeServer) -> None:
    """As the shell names it for <(...)."""
    with written(LINES) as pipe:
        ran = terminal("schedule", "mails", "--file", f"/dev/fd/{pipe}", "--in", "5m")
    assert (ran.code, ran.out, ran.err) == (0, "Scheduled 2,500 tasks on mails.\n", "")
    assert sorted(server.timers.payloads) == EXPECTED


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_stdin_is_read_once(terminal: Terminal, server: FakeServer, name: str) -> None:
    with written(LINES) as pipe, as_stdin(pipe):
        ran = terminal("schedule", "mails", "--file", name, "--in", "5m", "--json")
    assert (ran.code, len(ran.lines)) == (0, 2500)
    assert sorted(server.timers.payloads) == EXPECTED


def test_a_fifo_ends_with_its_writer(terminal: Terminal, server: FakeServer, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: write(os.open(fifo, os.O_WRONLY), LINES))
    writer.start()
    ran = terminal("schedule", "mails", "--file", str(fifo), "--in", "5m")
    writer.join()
    assert (ran.code, ran.out) == (0, "Scheduled 2,500 tasks on mails.\n")


def test_what_a_slow_writer_has_written_is_stored_before_it_goes_on(terminal: Terminal, server: FakeServer) -> None:
    reading, writing = os.pipe()
    stored = threading.Event()

    def speak() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(b"one\ntw")
            while not server.timers.payloads:
                stored.wait(0.01)
            pipe.write(b"o\n\nfour")

    writer = threading.Thread(target=speak)
    writer.start()
    ran = terminal("schedule", "mails", "--file", f"/dev/fd/{reading}", "--in", "5m")
    writer.join()
    os.close(reading)
    assert (ran.code, ran.out) == (0, "Scheduled 4 tasks on mails.\n")
    assert server.timers.payloads[0] == b"one"
    assert sorted(server.timers.payloads) == [b"", b"four", b"one", b"two"]


@pytest.mark.parametrize("name", ["empty", "-", "/dev/null"])
def test_an_empty_input_is_no_success(terminal: Terminal, server: FakeServer, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").touch()
    path = str(tmp_path / name) if name == "empty" else name
    with written(b"") as pipe, as_stdin(pipe):
        ran = terminal("schedule", "mails", "--file", path, "--in", "5m")
    assert (ran.code, ran.out) == (2, "")
    assert "is empty: nothing was scheduled" in ran.err


def test_an_endless_line_is_refused(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal("schedule", "mails", "--file", "/dev/zero", "--in", "5m")
    assert ran.code == 2
    assert "/dev/zero, line 1: The payload has more than 1,048,576 bytes" in ran.err


def test_a_payload_comes_from_stdin_as_it_is(terminal: Terminal, server: FakeServer) -> None:
    with written(b"\x00\xffraw\n") as pipe, as_stdin(pipe):
        assert terminal("schedule", "mails", "-", "--in", "5m").code == 0
    assert server.timers.payloads == [b"\x00\xffraw\n"]


def test_an_endless_payload_is_refused(terminal: Terminal, server: FakeServer) -> None:
    with written(b"x" * (2 << 20)) as pipe, as_stdin(pipe):
        ran = terminal("schedule", "mails", "-", "--in", "5m")
    assert ran.code == 2
    assert "stdin: The payload has more than 1,048,576 bytes" in ran.err


def test_a_folder_is_no_file(terminal: Terminal, tmp_path: Path) -> None:
    ran = terminal("schedule", "mails", "--file", str(tmp_path), "--in", "5m")
    assert (ran.code, ran.err) == (2, f"timerd: {tmp_path}: Is a directory.\n")


def test_the_lines_stored_before_an_error_are_told(terminal: Terminal, server: FakeServer) -> None:
    reading, writing = os.pipe()

    def speak() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(b"one\ntwo\n")
            while len(server.timers.payloads) < 2:
                threading.Event().wait(0.01)
            server.timers.refusals.append(refusal())
            pipe.write(b"three\n")

    writer = threading.Thread(target=speak)
    writer.start()
    ran = terminal("schedule", "mails", "--file", f"/dev/fd/{reading}", "--in", "5m")
    writer.join()
    os.close(reading)
    assert ran.code == 2
    assert "No. Lines stored before that: 2." in ran.err


def refusal() -> task_pb2.Problem:
    return task_pb2.Problem(code=3, message="No.", reason="INVALID")


@pytest.mark.parametrize("option", ["--tls-ca", "--token-file"])
def test_what_is_read_more_than_once_is_no_pipe(terminal: Terminal, option: str) -> None:
    with written(b"secret") as pipe:
        ran = terminal("get", "x", option, f"/dev/fd/{pipe}")
    assert ran.code == 2
    assert f"/dev/fd/{pipe} is no regular file, and it is read more than once" in ran.err


def _restore(path: Path) -> object:
    return restore(path, path.parent / "data")


def _tls(path: Path) -> object:
    return read_tls(TlsConfig(certificate_file=path, key_file=path))


@pytest.mark.parametrize("read", [read_principals, _tls, _restore])
def test_a_fifo_without_a_writer_is_refused_not_waited_for(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(StartupError, match="no regular file"):
        read(tmp_path / "fifo")
