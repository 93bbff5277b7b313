"""Acks of one message, in whatever order they come: each ends its delivery, once, and is counted once."""

from __future__ import annotations

import random

import pytest

from tests.unit.deliveries import ids_of, taken_of
from timerd.core.dispatch.attempt_ends import AttemptEnds
from timerd.core.dispatch.flights import ACKED, MAX_BATCH_ROWS, Batch, Flights
from timerd.core.dispatch.hand_count import HandCount
from timerd.core.dispatch.queue_stats import QueueStats
from timerd.core.taken import Ended
from timerd.model.identity import short_id
from timerd.model.partition import Partition
from timerd.model.settle import Outcome


class Sky:
    """Three batches side by side, two of them as large as they can be."""

    def __init__(self) -> None:
        self.flights = Flights()
        self.stats, self.hand = QueueStats(), HandCount()
        self.batches = [self._send(number, rows) for number, rows in enumerate((MAX_BATCH_ROWS, MAX_BATCH_ROWS, 3))]

    def _send(self, number: int, rows: int) -> Batch:
        batch = taken_of(range(rows), prefix=b"%012d" % number)
        return self.flights.register(1, batch, 10_000, AttemptEnds(10_000), 0, self.stats, self.hand)

    def deliveries(self) -> dict[bytes, Ended]:
        return {
            batch.ids[row]: Ended(batch.taken.partition, batch.key(row), Outcome.ACKED)
            for batch in self.batches
            for row in range(batch.open)
        }


@pytest.mark.parametrize("seed", range(12))
def test_each_ends_its_delivery_once(seed: int) -> None:
    sky, chance = Sky(), random.Random(seed)
    open_ = sky.deliveries()
    while open_:
        asked = list(open_)[: chance.choice((1, 3, 700, 5_000))]
        asked = chance.choice((asked, asked[::-1], chance.sample(asked, len(asked))))
        if chance.random() < 0.5:
            asked.insert(chance.randrange(len(asked) + 1), b"of nobody")
            asked += asked[:2]
        single, together, unknown = sky.flights.acked(asked, now_ms=5)
        ended = [*single, *(each for part in together for each in part.each())]
        known = [open_.pop(each, None) for each in asked]
        assert sorted(ended) == sorted(each for each in known if each is not None)
        assert not (single and together and unknown)
        assert {type(each) for each in ended} <= {Ended}
        assert unknown == [at for at, each in enumerate(known) if each is None]
        assert len(sky.flights) == sky.hand.open == len(open_)
    assert sky.stats.outcomes == {ACKED: 2 * MAX_BATCH_ROWS + 3}
    assert not list(sky.flights.all())


@pytest.mark.parametrize("rows", [2, 40])
def test_two_generations_of_a_task_are_two_deliveries(rows: int) -> None:
    flights, stats = Flights(), QueueStats()
    first, second = taken_of(range(rows)), taken_of(range(rows), version=1 << 16)
    for batch in (first, second):
        flights.register(1, batch, 10_000, AttemptEnds(10_000), 0, stats, HandCount())
    flights.check()
    found = [flights.find(each) for each in (*ids_of(first), *ids_of(second))]
    assert [each and each[0].key(each[1]).version for each in found] == [0] * rows + [1 << 16] * rows
    assert flights.places(ids_of(second)).keys() == set(ids_of(second))
    flights.acked(list(map(short_id, ids_of(second))), now_ms=5)
    assert flights.pop(ids_of(second)[0]) is None
    assert [worker for worker, _ in flights.move_away(Partition(0, 300_000, 9), ids_of(first)[:1])] == [1]
    assert len(flights) == rows - 1
