"""What comes twice is counted by task, also after the last; what came after its ack was confirmed is told apart."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import receiver as measured
from benchmarks.figures import BenchmarkFailed
from benchmarks.measures.recovery import Again, in_flight
from benchmarks.receiver import Receiver
from benchmarks.witness import Book, NotedSettler
from timerd.sdk.values.deliveries import DeliveredBatch, Delivery
from timerd.sdk.working.dispositions import ACK, RELEASE
from timerd.sdk.working.leases import DEFAULT_TOKEN_BYTES
from timerd.v1 import task_pb2
from timerd.v1 import work_service_pb2 as pb

PATIENCE_S = 0.2


def token(number: int, stream: int = 0) -> bytes:
    return bytes([stream, number]).ljust(DEFAULT_TOKEN_BYTES, b".")


def message(*numbers: int, stream: int = 0) -> pb.Deliver:
    payloads = [number.to_bytes(8) + b"more" for number in numbers]
    return pb.Deliver(
        queue="q",
        fire_at_ms=[1] * len(numbers),
        payloads=b"".join(payloads),
        payload_lengths=[len(payloads[0])],
        ack_tokens=b"".join(token(number, stream) for number in numbers),
    )


def deliveries(*numbers: int) -> list[Delivery]:
    batch = DeliveredBatch(message(*numbers))
    return [Delivery(batch, index) for index in range(len(numbers))]


async def collected(compact: bool, *, before: list[int], later: list[int]) -> tuple[int, int]:
    """(received, different ones) where three tasks are waited for, and `later` comes when it waits already."""
    receiver = Receiver()
    note = receiver._note if compact else receiver._on_batch
    await note(deliveries(*before))
    if compact:
        collecting = asyncio.create_task(receiver.collect_compact(3, PATIENCE_S))
    else:
        collecting = asyncio.create_task(receiver.collect(3, PATIENCE_S))
    await asyncio.sleep(measured.LOOK_EVERY_S)
    if later:
        await note(deliveries(*later))
    got = await collecting
    return got["received"], got["distinct"]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize(
    ("before", "later", "counted"),
    [
        ([1, 2, 3], [], (3, 3)),
        ([1, 2, 2], [3], (4, 3)),
        ([1, 2, 3], [2], (4, 3)),
        ([1, 1, 2, 2], [3], (5, 3)),
        ([1, 2, 2], [], (3, 2)),
    ],
    ids=["once", "twice-before-the-last", "twice-after-the-last", "two-twice", "lost"],
)
async def test_what_comes_twice_makes_up_for_no_other_task(
    compact: bool, before: list[int], later: list[int], counted: tuple[int, int]
) -> None:
    assert await collected(compact, before=before, later=later) == counted


async def test_the_time_line_ends_with_the_last_task_that_was_new() -> None:
    receiver = Receiver()
    for numbers in ([1, 2], [3], [2], [1]):
        await receiver._on_batch(deliveries(*numbers))
    got = await receiver.collect(3, PATIENCE_S, since_ms=1)
    assert [seen for _, seen in got["timeline"]] == [2, 3, 3]


def confirmed(sequence: int, *refused: int, also: tuple[int, ...] = ()) -> pb.SettleConfirmed:
    problem = task_pb2.Problem(code=9, message="it ended otherwise") if refused else None
    return pb.SettleConfirmed(sequence=sequence, refused=refused, also=also, problem=problem)


def test_a_task_may_come_again_until_its_ack_is_confirmed() -> None:
    book = Book()
    settler = NotedSettler(book)
    for event in (message(1, 2), message(3), message(1, stream=1)):
        book.deliver(event)
    assert book.after_confirmed() == set()
    for numbers in ([1, 2], [3]):
        settler.add(ACK, b"".join(map(token, numbers)))
        settler.take_new()
    settler.confirm(confirmed(2, also=(1,)))
    assert (book.delivered, book.confirmed) == (4, 3)
    book.deliver(message(3, 1, stream=2))
    assert book.after_confirmed() == {1, 3}


def test_what_is_refused_or_no_ack_is_not_confirmed() -> None:
    book = Book()
    settler = NotedSettler(book)
    book.deliver(message(1, 2, 3))
    settler.add(ACK, token(1) + token(2))
    settler.take_new()
    settler.add(RELEASE, token(3))
    settler.take_new()
    settler.confirm(confirmed(1, 1))
    settler.confirm(confirmed(2))
    book.deliver(message(1, 2, 3, stream=1))
    assert (book.confirmed, book.after_confirmed()) == (1, {1})


def test_what_was_confirmed_to_a_worker_before_must_not_come_to_another() -> None:
    book = Book()
    book.deliver(message(4, 5, 6))
    assert (book.after_confirmed(4), book.after_confirmed(6)) == (set(), {4, 5})


@pytest.mark.parametrize(
    ("again", "beyond"), [(Again(5, 5, 0), 0), (Again(0, 9, 0), 0), (Again(7, 5, 0), 2), (Again(1, 5, 1), 1)]
)
def test_beyond_what_is_permitted_is_too_many_or_the_wrong_ones(again: Again, beyond: int) -> None:
    figure = again.figures("killed")[-1]
    assert (figure.value, figure.floor is not None and figure.floor.holds(figure.value)) == (beyond, beyond == 0)


def test_a_kill_with_fewer_in_flight_is_no_such_measure() -> None:
    in_flight(5, 5)
    with pytest.raises(BenchmarkFailed, match=r"^5 tasks were to be in flight at the kill, 4 were\.$"):
        in_flight(5, 4)
