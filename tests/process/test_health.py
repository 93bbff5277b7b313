"""`timerd health`: what a container asks itself, and SIGTERM before there is a server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.children import Server, run_cli
from timerd.demo.processes import free_port

pytestmark = pytest.mark.process


def test_a_server_that_serves_is_healthy_in_all_its_parts(server: Server) -> None:
    for service in ("", "api", "live"):
        asked = run_cli("health", "--server", server.address, "--service", service, "--json")
        assert (asked.returncode, json.loads(asked.stdout)) == (0, {"service": service, "status": "SERVING"})


def test_a_part_that_is_not_there_is_a_no(server: Server) -> None:
    asked = run_cli("health", "--server", server.address, "--service", "invented")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr == (
        f"timerd: timerd at {server.address} has no part named 'invented': ask for api, scheduler, store or live.\n"
    )


def test_where_nobody_listens_nobody_is_healthy() -> None:
    address = f"127.0.0.1:{free_port()}"
    asked = run_cli("health", "--server", address, "--timeout", "2s")
    assert (asked.returncode, asked.stdout) == (3, "")
    assert asked.stderr.startswith(f"timerd: Nothing answers a health check at {address}: start a server with ")


def test_sigterm_before_it_serves_ends_it_with_a_code(tmp_path: Path) -> None:
    """While it waits for its store, for example. In a container the kernel would do nothing for it."""
    program = (
        "import os, signal, sys\n"
        "from timerd import bootstrap\n"
        "async def never(*_):\n"
        "    import asyncio\n"
        "    print('waiting', flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "bootstrap.serve = never\n"
        "from timerd.cli import main\n"
        "main(['serve', '--data', sys.argv[1]])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "")
