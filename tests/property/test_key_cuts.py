"""A queue with limit keys in little memory: the longest keys are cut, each at its own place. Each row is sent once,
none after its cancel, of a key none past what is behind its cursor; a key that is short is always in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from tests.property.key_cuts import KEYS, Hand
from tests.unit.partition_rig import key
from timerd.core.due_queue import due_queue, key_places
from timerd.core.partition import settled_index
from timerd.model.identity import RowKey


@pytest.fixture(autouse=True)
def few_are_many() -> Iterator[None]:
    with (
        patch.object(key_places, "LEAST_ROWS", 1),
        patch("timerd.core.due_queue.waiting_bytes.TEMPLATE_BYTES", 0),
        patch.object(due_queue, "CUT_RUNS", 1),
        patch.object(settled_index, "FRESH", 3),
        patch.object(settled_index, "LARGEST_MERGE", 6),
    ):
        yield


def drawn(chance: random.Random, number: int) -> dict[RowKey, str]:
    """Most rows are of one key; of the short one there are eight at the most."""
    names = chance.choices(KEYS[:3], (8, 2, 1), k=chance.randrange(4, 12)) + ["short"] * (number < 8)
    return {key(100 * number + n, chance.randrange(1, 60)): name for n, name in enumerate(names)}


@pytest.mark.parametrize("seed", range(40))
def test_each_row_is_sent_once_and_a_short_key_is_always_there(seed: int) -> None:
    chance = random.Random(seed)
    here = Hand(chance.choice((45, 60)))
    cuts = 0
    for number in range(24):
        here.write(drawn(chance, number), told=chance.random() < 0.5)
        if here.rows.left.reload is None and chance.random() < 0.6:
            here.sweep()
        here.judge()
        cuts += bool(here.rows.left.keys)
        some(here, chance)
        if here.rows.left.reload is None and chance.random() < 0.3:
            reload(here, chance)
    here.sweep()
    while here.left() or here.in_memory():
        here.send(9)
        while here.open:
            here.ack()
        here.judge()
        reload(here, chance)
    assert not here.left()
    assert set(here.sent) | here.said == set(here.names)
    assert len(here.sent) == len(set(here.sent))
    assert not set(here.sent) & here.said
    assert cuts


def some(here: Hand, chance: random.Random) -> None:
    for _ in range(chance.randrange(4)):
        chance.choice((lambda: here.send(chance.randrange(1, 6)), here.ack, lambda: here.cancel(chance)))()
        here.judge()


def reload(here: Hand, chance: random.Random) -> None:
    """Where a queue is thin; meanwhile all goes on."""
    if here.table.begin_reload() is None:
        return
    for at in range(0, len(here.stored), 3):
        here.rows.merge(*here.stored[at : at + 3])
        here.judge()
        some(here, chance)
        if chance.random() < 0.3 and len(here.stored) < 40:
            here.write(drawn(chance, len(here.stored) + 50), told=True)
    here.table.end_reload()
    here.sweep()
    here.judge()
