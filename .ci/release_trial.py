"""What .ci/release.py runs in a fresh environment, without the checkout in its path: `client`, `server`, `native`."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

HEAVY = ("numpy", "aiohttp", "pydantic", "typer", "rich")
START_S = 60
PROGRAM = Path(sys.executable).parent / "timerd"


def client() -> None:
    """It is here without the server, and needs what it says."""
    import timerd

    assert timerd.__version__ == version("timerd-client")
    assert timerd.Client.__module__ == "timerd.sdk.scheduling.async_client"
    assert timerd.Worker.__module__ == "timerd.worker"
    asked = [line for line in requires("timerd-client") or () if "extra" not in line]
    assert sorted(re.split(r"[^\w-]", line)[0] for line in asked) == ["grpcio", "protobuf"]
    assert [name for name in HEAVY if name in sys.modules] == []
    try:
        version("timerd")
    except PackageNotFoundError:
        assert find_spec("timerd.cli") is None, "the server has left something behind"


def server() -> None:
    """A task goes through both; and who asks for the native door, which is not here, is told what to do."""
    gone_through("grpcio")
    with tempfile.TemporaryDirectory() as folder:
        asked: list[str | Path] = [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--set", "front_door=native"]
        told = subprocess.run([*asked, "--data", folder], capture_output=True, text=True, check=False, timeout=START_S)
    assert told.returncode != 0
    assert "install timerd-native" in told.stderr


def native() -> None:
    """It is of the same version, and serves without being asked for."""
    assert version("timerd-native") == version("timerd")
    gone_through("native")


def gone_through(door: str) -> None:
    """A task, by this front door."""
    from timerd.client import SyncClient
    from timerd.worker import Delivery, Worker

    assert version("timerd") == version("timerd-client")
    with tempfile.TemporaryDirectory() as folder:
        serving = subprocess.Popen(
            [PROGRAM, "serve", "--data", folder, "--listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert serving.stdout is not None
            address = json.loads(serving.stdout.readline())["ready"]
            doctor = [PROGRAM, "doctor", "--server", address, "--json"]
            seen_door = json.loads(subprocess.run(doctor, capture_output=True, text=True, check=False).stdout)
            assert seen_door["front_door"] == door
            with SyncClient(address) as caller:
                caller.schedule("mails", b"tea is ready", delay=0)
            worker, seen = Worker(address), []

            @worker.on("mails")
            async def remind(delivery: Delivery) -> None:
                seen.append(delivery.payload)
                asyncio.get_running_loop().call_soon(asyncio.ensure_future, worker.stop())

            asyncio.run(asyncio.wait_for(worker.run(), START_S))
            assert seen == [b"tea is ready"]
        finally:
            serving.terminate()
            assert serving.wait(START_S) == 0


if __name__ == "__main__":
    {"client": client, "server": server, "native": native}[sys.argv[1]]()
