"""SIGHUP, which somebody sends for files to be read anew, and the system when a terminal goes: real signals."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.certificates import Authority
from timerd.demo.processes import free_port

SERVE = [sys.executable, "-m", "timerd.cli", "serve"]
PATIENCE_S = 60.0
TAKEN_UP = "other settings need a restart"


def serve(data: Path, *more: str) -> list[str]:
    return [*SERVE, "--data", str(data), "--listen", f"127.0.0.1:{free_port()}", *more]


@contextmanager
def serving(command: list[str], errors: Path, *, nohup: bool = False) -> Iterator[subprocess.Popen[str]]:
    """It is ready."""
    with errors.open("wb") as file:
        # As nohup does it; and as a shell that gives a server no terminal.
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command] if nohup else command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    try:
        assert process.stdout is not None
        assert "is ready on" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def logged(errors: Path, text: str) -> bool:
    return text in errors.read_text()


def until_logged(errors: Path, text: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not logged(errors, text):
        assert time.monotonic() < end_s, errors.read_text()
        time.sleep(0.02)


def test_a_server_looks_at_its_files_and_goes_on(tmp_path: Path) -> None:
    principals, errors = tmp_path / "principals", tmp_path / "errors"
    principals.write_text("")
    certificate, key = Authority(tmp_path).sign("server", "IP:127.0.0.1")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    command = serve(tmp_path / "data", *tls, "--set", f"auth.principals_file={principals}")
    with serving(command, errors) as process:
        principals.write_text(f"mails work sha256:{'0' * 64}\n")
        process.send_signal(signal.SIGHUP)
        until_logged(errors, TAKEN_UP)
        assert logged(errors, "The principals were taken up anew")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_under_nohup_it_is_not_heard(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with serving(serve(tmp_path / "data"), errors, nohup=True) as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert not logged(errors, TAKEN_UP)


def test_a_server_whose_terminal_goes_stops_in_order(tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if not pid:
        os.execv(SERVE[0], serve(tmp_path / "data"))
    said = b""
    while b"is ready on" not in said:
        assert select.select([terminal], [], [], PATIENCE_S)[0], said
        said += os.read(terminal, 1000)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_server_goes_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    """As behind `| head -1`, or on a terminal that goes while it says that it is ready."""
    command = serve(tmp_path / "data")
    port = int(command[command.index("--listen") + 1].rpartition(":")[2])
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert server.stdout is not None
    server.stdout.close()
    end_s = time.monotonic() + PATIENCE_S
    while not listens(port):
        assert (server.poll(), time.monotonic() < end_s) == (None, True)
        time.sleep(0.02)
    subprocess.run([*SERVE[:-1], "count", "--server", f"127.0.0.1:{port}", "--queue", "q"], check=True)
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE_S) == 0


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_the_demo_takes_its_processes_with_it(tmp_path: Path, number: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "timerd.cli", "demo", "--tasks", "100", "--seconds", "600", "--data", tmp_path / "d"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children")
    end_s = time.monotonic() + PATIENCE_S
    while not all((tmp_path / "d" / name).exists() for name in ("worker.log", "every-second.log")):
        assert time.monotonic() < end_s
        time.sleep(0.02)
    pids = [int(pid) for pid in children.read_text().split()]
    demo.send_signal(number)
    demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130
    assert len(pids) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
