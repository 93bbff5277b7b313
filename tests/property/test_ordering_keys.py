"""Tasks of ordering keys, through everything that happens on one instance (tests/property/ordered_world.py)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.property.ordered_world import ORDERING_KEYS, OrderedWorld
from tests.property.service_model import ServiceModel


class OrderedModel(ServiceModel):
    """One instance: nothing is handed over, no hint is lost, and there is one shard."""

    world: OrderedWorld
    hand_over = lose_hints = grow = None  # type: ignore[assignment]

    @initialize(budget_bytes=st.sampled_from([1 << 30, 300]), lag_ms=st.sampled_from([600_000, 8_000]))
    def begin(self, budget_bytes: int, lag_ms: int) -> None:
        self.world = OrderedWorld(budget_bytes, lag_ms, store=self.store())

    @rule(key=st.sampled_from(ORDERING_KEYS))
    def next_calls_are_of(self, key: str) -> None:
        self.world.ordering_key = key


TestOrdering = OrderedModel.TestCase
TestOrdering.settings = settings(max_examples=12, stateful_step_count=40, deadline=None)
