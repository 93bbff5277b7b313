"""A Session stream that is opened and written by hand."""

from __future__ import annotations

from typing import Any

from tests.services.api_rig import NOW_MS, Rig
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire


def batch(sequence: int, count: int = 1, payload: bytes = b"x", **fields: object) -> wire.SessionRequest:
    columns = wire.TaskColumns(
        fire_at_ms=[NOW_MS + n for n in range(count)], payload_lengths=[len(payload)] * count, payloads=payload * count
    )
    plain = {"template": task_wire.TaskTemplate(queue="q"), "request_id": str(sequence)}
    request = wire.ScheduleBatchRequest(columns=columns, **(plain | fields))  # type: ignore[arg-type]
    return wire.SessionRequest(sequence=sequence, schedule=request)


async def opened(rig: Rig) -> Any:  # noqa: ANN401
    """A call whose window has been read."""
    call = rig.stub.Session()
    first = await call.read()
    assert first.WhichOneof("response") == "window"
    return call
