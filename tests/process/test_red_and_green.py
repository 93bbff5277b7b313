"""What turns a server red, seen from outside: the part that cannot do its work, with its reason, and green again when
that is over. Never `live`: whoever restarts it for a disk or a clock restarts it in a loop.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.children import Server
from tests.process.clockstep import ClockStep
from tests.process.conftest import Children
from tests.process.freezing_server import FreezingServer
from tests.process.seen_health import SeenHealth
from tests.process.waiting import until

pytestmark = pytest.mark.process
DISK_MIB = 64
HOUR_MS = 3_600_000


def healthy(server: Server) -> SeenHealth:
    """Its health, once its first canary has come through."""
    seen = SeenHealth(server.address)
    server.start(*seen.options)
    until(lambda: seen.fired() >= 1 and seen.is_ready(), "it serves")
    assert seen.red() == set()
    return seen


def recovers(seen: SeenHealth, server: Server) -> None:
    """By itself: the process is the one of before."""
    before = seen.fired()
    until(lambda: seen.fired() > before and seen.is_ready(), "canaries come through again")
    assert seen.red() == set()
    assert server.is_running()


def test_commits_that_do_not_end_turn_the_store_red(tmp_path: Path, children: Children) -> None:
    server = children.own(FreezingServer(tmp_path))
    seen = healthy(server)
    server.gate.touch()
    until(lambda: "store" in seen.red(), "the stalled disk is noticed")
    assert "canary" in seen.reasons()["store"]
    assert not seen.red() & {"live", "scheduler"}
    assert (seen.is_ready(), seen.is_alive()) == (False, True)
    server.gate.unlink()
    recovers(seen, server)


class FreezableDisk:
    """A file system in a file, of which the kernel holds up every write while it is frozen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "disk"
        self._image = folder / "image"
        self.folder.mkdir()

    def mount(self) -> None:
        for needed in ("mkfs.ext4", "mount", "umount", "fsfreeze"):
            if shutil.which(needed) is None:
                pytest.skip(f"{needed} is not here: a disk that can be frozen cannot be made")
        with self._image.open("wb") as image:
            image.truncate(DISK_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self._image], check=True)
        mounted = subprocess.run(
            ["mount", "-o", "loop", self._image, self.folder], capture_output=True, text=True, check=False
        )
        if mounted.returncode:
            pytest.skip(f"a file system cannot be mounted here (that needs root): {mounted.stderr.strip()}")

    def freeze(self) -> None:
        subprocess.run(["fsfreeze", "--freeze", self.folder], check=True)

    def thaw(self) -> None:
        subprocess.run(["fsfreeze", "--unfreeze", self.folder], check=False, capture_output=True)

    def umount(self) -> None:
        subprocess.run(["umount", self.folder], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FreezableDisk]:
    """Thawed before the processes are ended: one that waits for it cannot be."""
    disk = FreezableDisk(tmp_path)
    disk.mount()
    yield disk
    disk.umount()


def test_a_disk_that_the_kernel_holds_up_turns_the_store_red(
    tmp_path: Path, disk: FreezableDisk, children: Children
) -> None:
    server = children.own(Server(tmp_path, data=disk.folder / "data"))
    seen = healthy(server)
    disk.freeze()
    try:
        until(lambda: "store" in seen.red(), "the stalled disk is noticed")
        assert "canary" in seen.reasons()["store"]
        assert "live" not in seen.red()
        assert (seen.is_ready(), seen.is_alive()) == (False, True)
    finally:
        disk.thaw()
    recovers(seen, server)


def test_a_clock_that_jumped_turns_the_scheduler_red(tmp_path: Path, children: Children) -> None:
    clock = ClockStep(tmp_path)
    server = children.own(Server(tmp_path, "--clock-stable", "3s", environment=clock.environment))
    seen = healthy(server)
    clock.set(HOUR_MS)
    until(lambda: "scheduler" in seen.red(), "the step is noticed")
    assert "live" not in seen.red()
    clock.set(0)
    recovers(seen, server)
