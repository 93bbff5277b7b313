"""How much of a queue is kept in memory: all that there is room for, where somebody works it."""

from __future__ import annotations

import pytest

from timerd.core.partition.memory import SMALLEST_SHARE_BYTES, Memory
from timerd.core.partition.reload import Reload
from timerd.core.taken import QueueKey
from timerd.model.partition import BUCKET_MS

MIB = 1 << 20
MAIL = QueueKey("default", "mail")


def memory(used_mib: int, *worked: QueueKey) -> Memory:
    return Memory(100 * MIB, used_mib * MIB, set(worked))


@pytest.mark.parametrize("own_mib", [0, 5, 90])
def test_a_queue_that_nobody_works_keeps_next_to_nothing(own_mib: int) -> None:
    assert memory(0).share_bytes(MAIL, own_mib * MIB) == SMALLEST_SHARE_BYTES


def test_a_queue_with_a_worker_keeps_all_that_there_is_room_for() -> None:
    assert memory(30, MAIL).share_bytes(MAIL, 10 * MIB) == 80 * MIB


@pytest.mark.parametrize(
    ("used_mib", "own_mib", "share_mib"), [(100, 40, 20), (110, 40, 15), (100, 0, 1), (500, 40, 1)]
)
def test_beyond_the_budget_it_gives_half_of_its_own_away(used_mib: int, own_mib: int, share_mib: int) -> None:
    assert memory(used_mib, MAIL).share_bytes(MAIL, own_mib * MIB) == share_mib * MIB


def test_a_queue_that_was_cut_wants_more_when_most_of_what_it_had_is_gone() -> None:
    assert memory(30, MAIL).wants_more(MAIL, 10 * MIB, BUCKET_MS)
    assert not memory(98, MAIL).wants_more(MAIL, 10 * MIB, BUCKET_MS)


@pytest.mark.parametrize(
    ("queue", "position_ms", "waits"),
    [
        (MAIL, BUCKET_MS - 1, True),
        (MAIL, BUCKET_MS, False),
        (MAIL, 2 * BUCKET_MS - 1, False),
        (MAIL, 2 * BUCKET_MS, False),
        (QueueKey("default", "other"), BUCKET_MS - 1, False),
    ],
)
def test_it_waits_while_an_earlier_bucket_of_it_comes(queue: QueueKey, position_ms: int, waits: bool) -> None:
    """Those rows are sent first: all of the later bucket would wait in memory beside them."""
    shared = memory(0, MAIL)
    shared.reloads.append(Reload(queue, (position_ms, 7), is_plain=True))
    assert shared.wants_more(MAIL, 0, BUCKET_MS + 5) is not waits
