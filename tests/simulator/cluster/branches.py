"""Counts how often a history of a cluster passes each branch that one instance does not have."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

from tests.simulator.branches import before, hit
from tests.simulator.events import Event, Fenced, Server
from timerd.core.partition.holding import Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.model.registers import Control
from timerd.model.storage import CasStatus
from timerd.services.holding.hand_over import HandOver
from timerd.services.peers.peers import Peers, Silent
from timerd.services.work.credit_allocation import CreditAllocation
from timerd.services.work.home import Home

BRANCHES = (
    "take-over with unsettled rows",
    "take-over with settled rows",
    "take-over from a dead holder",
    "handed over to a successor",
    "carry: hand over",
    "carry: completed by a later holder",
    "remote: adopted",
    "remote: already have",
    "remote: below floor",
    "remote: not held",
    "remote: silent holder",
    "sweep rescue",
    "stale mark refused",
    "relayed delivery",
    "grant returned",
    "resume at another home",
    "stray delivery",
    "delivery by a stale token",
    "placed by a compare-and-set",
    "told again",
    "lease lapsed",
    "hint lost",
    "call lost",
    "stream given up",
    "cancel: cancelled",
    "cancel: pending",
    "move: moved",
    "move: decided by others (holder)",
    "unknown: done",
    "unknown: not done",
    "paused",
    "a write that lands late",
    "a write that a read brings out",
    "clock stepped",
    "cut off from the store",
    "cut off from each other",
    "killed",
    "stopped",
)


def _changed(machine: PartitionMachine, status: CasStatus, _: int) -> None:
    hit("stale mark refused", machine.phase is Phase.HOT and status is CasStatus.REFUSED)


def _acquires(machine: PartitionMachine, current: Control | None, *_: Any) -> None:
    other = current is not None and current.holder not in ("", machine._settings.holder)
    hit("take-over from a dead holder", other and current is not None and machine._may_take(current))


def _page_read(machine: PartitionMachine, page: Any, _: int) -> None:
    if machine.phase is Phase.HOT and machine.reload is None:
        hit("sweep rescue", any(map(machine._table._rows.met.is_new, page.groups)))


def _ended(_: HandOver, machine: PartitionMachine) -> None:
    hit("handed over to a successor", bool(machine.successor))


def _returned(_: CreditAllocation, __: Any, said: Any, ___: int) -> None:
    hit("grant returned", said.tasks)


def _finds(_: Home, worker: Any) -> None:
    hit("resume at another home", bool(worker.orphans()))


def _orphans(_: Home, __: Any, tokens: Any) -> None:
    hit("stray delivery", len(tokens))


def _answered(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(ask)
    async def asked(*args: Any) -> Any:
        try:
            answer = await ask(*args)
        except Silent:
            hit("remote: silent holder")
            raise
        hit("remote: " + ("not held" if answer is None else getattr(answer, "value", "answers")))
        return answer

    return asked


_LOOKS: tuple[tuple[Any, str, Callable[..., None]], ...] = (
    (PartitionMachine, "control_changed", _changed),
    (PartitionMachine, "_acquire", _acquires),
    (PartitionMachine, "page_read", _page_read),
    (HandOver, "ended", _ended),
    (CreditAllocation, "returned", _returned),
    (Home, "_find_orphans", _finds),
    (Home, "_orphan", _orphans),
)


@contextmanager
def watched_cluster() -> Iterator[None]:
    """Beside `watched`."""
    with ExitStack() as stack:
        for name in ("offer", "ask_to_end", "ask_to_move"):
            stack.enter_context(patch.object(Peers, name, _answered(getattr(Peers, name))))
        for owner, name, look in _LOOKS:
            stack.enter_context(patch.object(owner, name, before(getattr(owner, name), look)))
        yield


def befell(events: Iterable[Event]) -> None:
    """What the operator has seen."""
    for event in events:
        if isinstance(event, Server):
            hit("lease lapsed" if event.what == "lapsed" else event.what)
        hit("taken by a token", isinstance(event, Fenced))
