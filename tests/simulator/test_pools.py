"""Histories with pools: every promise is kept on one instance and on several, and broken rules are caught."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulator.judge import Verdict
from tests.simulator.pooled import judged_pooled, judged_pooled_cluster
from timerd.core.assignment import Pools
from timerd.services.work.credit_allocation import CreditAllocation

# In fewer deliveries a slot was wanted by several.
DELIVERED = 100


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("judged", "seeds"), [(judged_pooled, 15), (judged_pooled_cluster, 10)])
def test_no_worker_has_more_in_hand_than_slots_and_nothing_is_left_behind(
    judged: Callable[[int], Verdict], seeds: int
) -> None:
    delivered = 0
    for seed in range(seeds):
        verdict = judged(seed)
        assert not verdict.wrong, f"seed {seed}: {verdict.wrong}"
        delivered += verdict.hits["delivered"]
    assert delivered >= DELIVERED


@contextmanager
def sent_and_free() -> Iterator[None]:
    """Who was sent something has its slot at once again."""
    take = Pools.take

    def takes(self: Any, queue: Any, tasks: int) -> Any:
        taken = take(self, queue, tasks)
        for worker, count in taken:
            self.give_back(worker, queue, count)
        return taken

    with patch.object(Pools, "take", takes):
        yield


@contextmanager
def lent_and_free() -> Iterator[None]:
    """What another instance has is given away here, too."""
    lend = CreditAllocation._lend_to

    def lends(self: Any, peer: int, number: int, queue: Any, tasks: int, now_ms: int) -> None:
        lend(self, peer, number, queue, tasks, now_ms)
        self._machine.capacity.pools.give_back(number, queue, tasks)

    with patch.object(CreditAllocation, "_lend_to", lends):
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("broken", "judged", "seeds"),
    [
        (sent_and_free, judged_pooled, range(10)),
        (lent_and_free, judged_pooled_cluster, range(20)),
    ],
)
def test_a_broken_rule_is_caught(
    broken: Callable[[], AbstractContextManager[None]], judged: Callable[[int], Verdict], seeds: range
) -> None:
    with broken():
        assert any(judged(seed).wrong for seed in seeds)
