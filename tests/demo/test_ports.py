"""A port that was given out stays with whom it was given to, over restarts of its server and beside other processes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys

import pytest

from timerd.demo import processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port is only looked at")
# Above all those that other tests are given meanwhile, and keep.
PORTS, ELSEWHERE = range(32_100, 32_104), range(32_104, 32_108)
ASK_FOR_ALL = f"""
from timerd.demo import processes
processes._PORTS, processes._TRIED_PORTS = range({PORTS[0]}, {PORTS[-1] + 1}), {len(PORTS)}
print(processes.free_port())
"""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PORTS", PORTS)
    monkeypatch.setattr(processes, "_TRIED_PORTS", len(PORTS))


def serve(port: int) -> socket.socket:
    """As servers do: with SO_REUSEADDR, on all addresses."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("", port))
    server.listen()
    return server


def other_process() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ASK_FOR_ALL], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.usefixtures("few")
def test_nobody_is_given_a_port_twice() -> None:
    given = [processes.free_port() for _ in PORTS]
    assert sorted(given) == list(PORTS)
    with pytest.raises(processes.DemoFailed):
        processes.free_port()
    assert "No free port" in other_process().stderr
    with contextlib.closing(serve(given[0])):
        assert "No free port" in other_process().stderr
    serve(given[0]).close()


@pytest.mark.usefixtures("few")
def test_what_listens_on_another_address_of_this_machine_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PORTS", ELSEWHERE)
    with contextlib.ExitStack() as ending:
        for port in ELSEWHERE:
            taken = ending.enter_context(contextlib.closing(socket.socket()))
            with contextlib.suppress(OSError):
                taken.bind(("127.0.0.37", port))
        with pytest.raises(processes.DemoFailed):
            processes.free_port()
