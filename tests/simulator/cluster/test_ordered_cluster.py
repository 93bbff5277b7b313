"""Histories of a cluster with ordering keys: the correct core keeps every promise, and each broken rule is caught."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulator.cluster.ordered import is_once, judged_ordered
from timerd.core.ordering import OrderKeys
from timerd.core.partition import PartitionMachine, Phase
from timerd.core.taken import LAST
from timerd.model.partition import Partition
from timerd.services.holding.read_through import ReadThrough

SEEDS = range(24)
# So many deliveries followed another one of their key, and so many one that stands before them.
SERIAL, ORDER = 20, 10


@pytest.mark.timeout(900)
def test_one_of_a_key_at_a_time_and_in_order_between_instances() -> None:
    serial = order = 0
    for seed in SEEDS:
        verdict, checker = judged_ordered(seed, once=is_once(seed))
        assert not verdict.wrong, f"seed {seed}: {verdict.wrong}"
        serial, order = serial + checker.judged_serial, order + checker.judged_order
    assert (serial >= SERIAL, order >= ORDER) == (True, True), (serial, order)


def sent_blocks_nothing() -> AbstractContextManager[Any]:
    """The next one does not wait for the end of the one before."""
    return patch.object(OrderKeys, "start", lambda self, filed, _: self.give([filed.line]))


def one_bucket_alone() -> AbstractContextManager[Any]:
    """The other buckets of the key shard are not asked for."""

    def known_ms(self: ReadThrough, _: object, partition: Partition) -> int:
        machine, kept_ms = self._machines[partition], self._kept.known_ms(partition.shard)
        return min(kept_ms, machine.ordered_from_ms(partition.scope))

    return patch.object(ReadThrough, "known_ms", known_ms)


def closing_unasked() -> AbstractContextManager[Any]:
    """What has been read is sent, although others may write what comes before it."""

    def ordered_from_ms(self: PartitionMachine, scope: int) -> int:
        if self.phase in (Phase.COUNT, Phase.DONE):
            return LAST
        is_read = self.phase is Phase.HOT and not self._table.is_redoing
        return self._table.ordered_from_ms(scope) if is_read else self.partition.bucket_ms

    return patch.object(PartitionMachine, "ordered_from_ms", ordered_from_ms)


def fence_of_the_place() -> AbstractContextManager[Any]:
    """The fence is that of one instance."""
    return patch.object(OrderKeys, "start", lambda self, filed, _: self.block(filed))


# By the seeds that show them.
BROKEN: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Sequence[int]]] = {
    "sent-blocks-nothing": (sent_blocks_nothing, (8, 16, 0, 19, *range(40))),
    "one-bucket-alone": (one_bucket_alone, (63, *range(40))),
    "closing-unasked": (closing_unasked, (622, *range(40))),
    "fence-of-the-place": (fence_of_the_place, (108, *range(40))),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_rule_is_caught_between_instances(name: str) -> None:
    broken, seeds = BROKEN[name]
    with broken():
        assert any(judged_ordered(seed, once=is_once(seed))[0].wrong for seed in seeds)
