"""A full disk: nothing is acknowledged that is not stored, and the service goes on when there is space again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import NoReturn

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.process.children import Holder, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from tests.process.worker_log import WorkerLog
from timerd.client import ItemOutcome, PartlyStored, SyncClient, Task, TimerdError
from timerd.v1 import task_pb2, timer_service_pb2_grpc
from timerd.v1 import timer_service_pb2 as pb

pytestmark = pytest.mark.process
DISK_MB = 12
BATCH = 20
AHEAD = timedelta(hours=1)
PAYLOAD = b"x" * 16_000
# Far more than the disk holds.
MOST_BATCHES = 200
KEY = "refused"
LOADED, LOADED_S = 100, 4.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, a few megabytes large."""
    mount, umount, folder = shutil.which("mount"), shutil.which("umount"), tmp_path / "disk"
    if mount is None or umount is None:
        pytest.skip("mount is not here: a small disk cannot be made")
    folder.mkdir()
    options = f"size={DISK_MB}m,mode=0700"
    made = subprocess.run([mount, "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here (that needs root): {made.stderr.decode().strip()}")
    yield folder
    subprocess.run([umount, folder], check=True)


def fill(client: SyncClient) -> tuple[list[Task], TimerdError]:
    """Batches until one is refused, then single tasks until one is refused."""
    stored, _ = fill_with_batches(client)
    for _ in range(MOST_BATCHES):
        try:
            stored.append(client.schedule("q", PAYLOAD, delay=AHEAD))
        except TimerdError as error:
            return stored, error
    raise AssertionError("the disk is larger than thought")


def fill_with_batches(client: SyncClient) -> tuple[list[Task], TimerdError]:
    stored: list[Task] = []
    for _ in range(MOST_BATCHES):
        try:
            stored += client.schedule_many("q", [(PAYLOAD, AHEAD)] * BATCH)
        except PartlyStored as error:
            outcomes = {task.outcome for task in error.tasks}
            assert outcomes == {ItemOutcome.NOT_STORED}, "a batch of one message is stored as a whole or not at all"
            return stored, error
        except TimerdError as error:
            return stored, error
    raise AssertionError("the disk is larger than thought")


def test_a_full_disk_acknowledges_nothing_and_space_makes_it_go_on(
    disk: Path, tmp_path: Path, children: Children
) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(DISK_MB << 19))
    server = children.own(Server(tmp_path, data=disk / "data"))
    server.start()
    with SyncClient(server.address, timeout=1) as client:
        stored, error = fill(client)
        assert stored, "at first there was room"
        assert (error.code, error.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE"), error
        assert "disk" in str(error)
        assert "Traceback" not in str(error)
        assert client.get(stored[0].id).payload == PAYLOAD, "what is stored can be read"
        keyed = ask_with_key(server.address)
        assert keyed.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN), keyed
        ballast.unlink()
        again: list[Task] = []

        def is_stored() -> bool:
            try:
                again.append(client.schedule("q", b"there is room", delay=AHEAD))
            except TimerdError:
                return False
            return True

        until(is_stored, "the server stores again")
        assert again[0].outcome is ItemOutcome.STORED
        check(client, [*stored, *again])
        server.kill()
        server.start()
        check(client, [*stored, *again])
    assert server.is_running()
    assert os.path.ismount(disk)


def test_loaded_tasks_fire_on_a_disk_that_is_full_to_the_last_byte(
    disk: Path, tmp_path: Path, children: Children
) -> None:
    """Their acks wait for space and count then: nothing is lost, nothing comes twice."""
    server = children.own(Server(tmp_path, data=disk / "data"))
    server.start()
    with SyncClient(server.address, timeout=1) as client:
        tasks = client.schedule_many("q", [(b"%d" % n, LOADED_S) for n in range(LOADED)])
        # To hold their partition something is written.
        until(lambda: client.server_info().loaded >= LOADED, "they are loaded")
        fill_to_the_last_byte(disk / "ballast")
        _, error = fill(client)
        assert (error.code, error.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE")
        worker = children.own(Holder(tmp_path, "worker", server.address, "q", (0, 0)))
        worker.start()
        log = WorkerLog(tmp_path / "worker.log")
        until(lambda: len(log.numbers) >= LOADED, "what was loaded fires")
        (disk / "ballast").unlink()
        until(lambda: len(log.confirmed) >= LOADED, "the acks are confirmed when there is space")
        assert sorted(log.numbers) == list(range(LOADED)), "each came once"
        assert {client.get(task.id).state.name for task in tasks} == {"ACKED"}


def fill_to_the_last_byte(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size_bytes in (1 << 16, 1):
            with pytest.raises(OSError, match="No space left"):
                write_on(file, size_bytes)


def write_on(file: FileIO, size_bytes: int) -> NoReturn:
    while True:
        file.write(bytes(size_bytes))


def ask_with_key(address: str) -> grpc.RpcError:
    """Once, without the SDK's repeats: the server itself must answer."""
    template = task_pb2.TaskTemplate(queue="q")
    request = pb.ScheduleRequest(template=template, payload=PAYLOAD, key=KEY, delay=Duration(seconds=3600))
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
        timer_service_pb2_grpc.TimerServiceStub(channel).Schedule(request, timeout=20)
    return refused.value


def check(client: SyncClient, tasks: list[Task]) -> None:
    """All that was acknowledged is there, and nothing that was refused."""
    assert {client.get(task.id).state.name for task in tasks[::10]} == {"PENDING"}
    with pytest.raises(TimerdError) as error:
        client.get(key=KEY)
    assert error.value.code == "NOT_FOUND"
    now = datetime.now(UTC)
    listed = {task.id for task in client.list(start=now, end=now + 2 * AHEAD, queue="q")}
    assert {task.id for task in tasks} <= listed
