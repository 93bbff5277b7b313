"""G11: a disk that does not answer for a while. Callers hear of it within their deadline, what is loaded fires, and
when the disk goes on everything has ended once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Holder
from tests.process.conftest import Children
from tests.process.freezing_server import FreezingServer
from tests.process.waiting import until
from tests.process.worker_log import WorkerLog
from timerd.client import CancelOutcome, OutcomeUnknown, SyncClient, TimerdError, Unavailable

pytestmark = pytest.mark.process
LOADED = 200
AHEAD, STEP = timedelta(seconds=2), timedelta(milliseconds=10)
LATER = timedelta(hours=1)


def failure(work: Callable[[], object]) -> TimerdError:
    with pytest.raises(TimerdError) as failed:
        work()
    return failed.value


def test_while_the_disk_is_frozen_callers_are_told_and_what_is_loaded_fires(tmp_path: Path, children: Children) -> None:
    server = children.own(FreezingServer(tmp_path))
    server.start()
    children.own(Holder(tmp_path, "worker", server.address, "loaded", (0, 0))).start()
    log = WorkerLog(tmp_path / "worker.log")
    with SyncClient(server.address, timeout=60) as client, SyncClient(server.address, timeout=0.4) as hasty:
        start = datetime.now(UTC)
        tasks = client.schedule_many("loaded", [(b"%d" % n, start + AHEAD + n * STEP) for n in range(LOADED)])
        kept = client.schedule("later", b"kept", at=start + LATER)
        until(lambda: client.server_info().loaded + len(log.numbers) >= LOADED, "it is loaded")
        server.gate.touch()

        def ask(client: SyncClient, payload: bytes) -> str:
            return client.schedule("later", payload, at=start + LATER, request_id=payload.decode()).id

        assert isinstance(failure(lambda: ask(hasty, b"stuck")), OutcomeUnknown)
        until(lambda: isinstance(failure(lambda: ask(hasty, b"early")), Unavailable), "the frozen disk is noticed")
        for work in (lambda: ask(hasty, b"refused"), lambda: hasty.cancel(kept.id)):
            refused = failure(work)
            assert (refused.code, refused.reason) == ("UNAVAILABLE", "STORE_UNAVAILABLE"), refused
            assert "nothing was stored" in str(refused)
        assert client.get(kept.id).state.name == "PENDING", "what is stored can be read"
        until(lambda: len(log.numbers) >= LOADED, "what was loaded fires")
        assert len(log.confirmed) < LOADED, "no ack is confirmed that is not durable"
        server.gate.unlink()

        until(lambda: len(log.confirmed) >= LOADED, "the acks are confirmed when the disk goes on")
        stuck = ask(client, b"stuck")
        assert client.cancel(kept.id) is CancelOutcome.CANCELLED
        stored = [task.id for task in client.list(start=start, end=start + 2 * LATER, queue="later")]
        payloads = [client.get(each).payload for each in stored]
        assert payloads.count(b"stuck") == 1, "the repeat is answered as the first time"
        assert client.get(stuck).payload == b"stuck"
        assert b"refused" not in payloads
        assert {client.get(task.id).state.name for task in tasks} == {"ACKED"}
    assert sorted(log.numbers) == list(range(LOADED)), "each came once"
    assert "Traceback" not in server.errors()
