"""A message of one task takes a way of its own through the server: it must come out as it would of the general one."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from timerd.adapters.sqlite import requests as stored_requests
from timerd.model.errors import Invalid
from timerd.model.first_reply import first_reply, indexes_of, read_reply
from timerd.model.identity import PREFIX_BYTES
from timerd.services.calls import requests
from timerd.services.calls.requests import NO_RULES, Draft, draft_of_batch, rules_for
from timerd.v1 import task_pb2, timer_service_pb2

NOW_MS = 1_800_000_000_000
LIMIT_BYTES = 1_000


def message(fire_at_ms: int | None = None, delay_ms: int | None = None, length: int = 5, **template: object) -> bytes:
    """As bytes, so that each draft reads a request of its own."""
    request = timer_service_pb2.ScheduleBatchRequest(request_id="r")
    request.template.CopyFrom(task_pb2.TaskTemplate(queue="q", **template))  # type: ignore[arg-type]
    request.columns.payloads = b"x" * length
    request.columns.payload_lengths.append(length)
    if fire_at_ms is not None:
        request.columns.fire_at_ms.append(fire_at_ms)
    if delay_ms is not None:
        request.columns.delay_ms.append(delay_ms)
    return request.SerializeToString()


def wrong_length() -> bytes:
    request = timer_service_pb2.ScheduleBatchRequest.FromString(message(NOW_MS))
    request.columns.payload_lengths[0] = 4
    return request.SerializeToString()


async def drafted(raw: bytes) -> tuple[object, ...]:
    """What is in the draft, or what was said instead."""
    request = timer_service_pb2.ScheduleBatchRequest.FromString(raw)
    try:
        draft: Draft = await draft_of_batch(request, rules_for(request, NOW_MS, LIMIT_BYTES, NO_RULES))
    except Invalid as error:
        return str(error), error.field, error.reason
    rows = draft.tasks.rows
    problems = [(index, str(error), getattr(error, "field", "")) for index, error in draft.problems.items()]
    parts = (rows.columns.tobytes(), rows.prefixes.tobytes(), tuple(rows.templates), bytes(rows.payloads), rows.extras)
    return draft.tasks.prefix, *(parts if len(rows) else ()), problems, draft.as_columns, draft.gave_delays


@pytest.mark.parametrize(
    "raw",
    [
        message(NOW_MS + 60_000),
        message(NOW_MS - 60_000),
        message(0, length=0),
        message(delay_ms=0),
        message(delay_ms=86_400_000, priority=7),
        message(-1),
        message(delay_ms=-1),
        message(1 << 62),
        message(delay_ms=1 << 62),
        message(NOW_MS, length=LIMIT_BYTES + 1),
        message(NOW_MS + 60_000, expire_time={"seconds": NOW_MS // 1000}),
        wrong_length(),
    ],
)
async def test_one_task_is_drafted_as_one_of_many(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        return None

    short = await drafted(raw)
    monkeypatch.setattr(requests, "_draft_of_single", nothing)
    assert short == await drafted(raw)


@pytest.mark.parametrize(
    ("raw", "namespace", "asked_s", "prefix"),
    [
        (message(NOW_MS + 60_000), "", 0, "237b6669b992eb4f340e5140"),
        (message(delay_ms=5_000), "", NOW_MS // 1000, "c7dc5592935b251fd764f27b"),
        (message(NOW_MS, priority=7, labels={"b": "2", "a": "1"}), "other", 0, "aaa997ba204729c575bfa963"),
    ],
    ids=["an instant", "a delay", "labels"],
)
async def test_a_message_is_known_by_what_it_was_known_by_in_earlier_versions(
    raw: bytes, namespace: str, asked_s: int, prefix: str
) -> None:
    """A repeat may come after an upgrade."""
    request = timer_service_pb2.ScheduleBatchRequest.FromString(raw)
    request.namespace = namespace
    if asked_s:
        request.request_time.seconds = asked_s
    for _ in range(2):
        assert (
            await draft_of_batch(request, rules_for(request, NOW_MS, LIMIT_BYTES, NO_RULES))
        ).tasks.prefix.hex() == prefix


@pytest.mark.parametrize("count", [1, 4, 5, 8, 9, 1_000])
@pytest.mark.parametrize("moved_ms", [0, 5])
def test_a_reply_says_again_what_it_was_told(count: int, moved_ms: int) -> None:
    asked_ms = np.arange(count, dtype=np.int64) + NOW_MS
    for indexes in (np.arange(count, dtype=np.uint32), np.arange(1, count + 1, dtype=np.uint32)):
        reply = first_reply(asked_ms + moved_ms, asked_ms, indexes)
        positions, fires = read_reply(reply)
        assert positions.tolist() == (asked_ms + moved_ms).tolist()
        assert fires.tolist() == asked_ms.tolist()
        assert indexes_of(reply).tolist() == indexes.tolist()


@pytest.mark.parametrize("span_ms", [1, 255, 300_000, 30 * 86_400_000, 1 << 45])
def test_a_reply_takes_as_many_bytes_as_its_instants_differ_in(span_ms: int) -> None:
    random = np.random.default_rng(1)
    asked_ms, positions_ms = (NOW_MS + random.integers(0, span_ms, 1_000) for _ in range(2))
    reply = first_reply(positions_ms, asked_ms, np.arange(1_000, dtype=np.uint32))
    assert [times.tolist() for times in read_reply(reply)] == [positions_ms.tolist(), asked_ms.tolist()]
    width = next(width for width in (0, 1, 2, 4, 8) if span_ms <= 256**width)
    assert len(reply) < 2 * (1_000 * width + 24)


def test_replies_of_earlier_versions_are_read() -> None:
    """They were compressed however short they were."""
    times = np.array([NOW_MS, NOW_MS + 7], np.int64)
    assert [part.tolist() for part in read_reply(b"\1" + zlib.compress(times.tobytes(), 1))] == [[NOW_MS], [NOW_MS + 7]]


@pytest.mark.parametrize("count", [1, 60, 2_000])
def test_a_block_of_replies_is_read_as_it_was_written(count: int) -> None:
    replies = {number.to_bytes(PREFIX_BYTES): b"%d" % number for number in range(count)}
    packed = stored_requests._pack(replies)
    assert stored_requests._unpack(packed) == replies
    earlier = packed if packed[:1] != b"\0" else zlib.compress(packed[1:], 1)
    assert stored_requests._unpack(earlier) == replies
