"""What is taken in at one time: the bytes of all requests that are being handled (G13)."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from timerd.model.errors import Overloaded
from timerd.services.calls.ingest import REQUEST_OVERHEAD_BYTES, IngestBudget

REQUEST_BYTES = 10_000
COST_BYTES = REQUEST_BYTES + REQUEST_OVERHEAD_BYTES


def test_requests_count_together_until_each_is_over() -> None:
    budget = IngestBudget(3 * COST_BYTES)
    with ExitStack() as held:
        for _ in range(3):
            held.enter_context(budget.hold(REQUEST_BYTES))
        assert budget.used_bytes == 3 * COST_BYTES
        with pytest.raises(Overloaded, match="nothing of this one was stored"), budget.hold(1):
            raise AssertionError("it was taken in")
        assert budget.used_bytes == 3 * COST_BYTES
    assert budget.used_bytes == 0


def test_a_request_that_fails_gives_its_bytes_back() -> None:
    budget = IngestBudget(COST_BYTES)
    for _ in range(3):
        with pytest.raises(ValueError, match="wrong"), budget.hold(REQUEST_BYTES):
            raise ValueError("wrong")
    assert budget.used_bytes == 0
