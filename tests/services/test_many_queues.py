"""A worker of many queues over real gRPC: what is due of each comes, and nothing is kept of those that it left."""

from __future__ import annotations

from tests.services.raw_worker import Rig, rig
from tests.unit.deliveries import NOW_MS, taken_of
from timerd.model.task import Template

__all__ = ["rig"]
MANY = 300


async def test_each_queue_gets_what_is_due_at_its_instant(rig: Rig) -> None:
    for number in range(MANY):
        template = Template("default", f"queue-{number}")
        rig.firing.put(taken_of([1], template, prefix=f"{number:012}".encode(), position_ms=NOW_MS + number % 3))
    worker = await rig.worker(*((f"queue-{number}", 1) for number in range(MANY)))
    for later_ms in range(3):
        came = {(await worker.deliver()).queue for _ in range(MANY // 3)}
        assert came == {f"queue-{number}" for number in range(later_ms, MANY, 3)}
        await rig.advance(1)
    worker.call.cancel()
    await rig.settle_down()
    await rig.advance(2_000)
    assert len(rig.delivery._looks._times) == 0
