"""When a home looks again at credit that its own workers have left and others want."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from timerd.core.dispatch import Want
from timerd.core.taken import QueueKey
from timerd.services.work.credit_allocation import HELD_BACK_MS, CreditAllocation

MAILS, NOW_MS = QueueKey("default", "mails"), 1_000


@pytest.mark.parametrize(
    ("head", "again_ms"),
    [
        pytest.param(None, NOW_MS + 1, id="own tasks needed less: the rest is lent at once"),
        pytest.param(900, NOW_MS + HELD_BACK_MS, id="own tasks wait for a limit: no round changes that"),
    ],
)
def test_credit_that_is_left_is_looked_at_again(head: int | None, again_ms: int) -> None:
    machine: Any = SimpleNamespace(free_credit=lambda _: [(7, 5)], grace_ms=0, wanted=lambda _: 5)
    firing: Any = SimpleNamespace(head_key=lambda *_: head)
    allocation = CreditAllocation(machine, firing, {})
    allocation.workers[7] = cast(Any, SimpleNamespace(remote=()))
    assert allocation.after(NOW_MS) > again_ms
    allocation._grants.want(2, MAILS, Want(3, 0))
    assert allocation.after(NOW_MS) == again_ms
