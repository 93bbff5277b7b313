"""Of many backlogs that rest some are ticked at a time, each in its turn; whatever has something to do always."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from types import SimpleNamespace
from typing import cast

import pytest

from timerd.core.holding import Phase
from timerd.core.partition_machine import PartitionMachine
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.services.holding.ticking import MOST_TICKS, RESTING_AT_ONCE, Ticking, rests


def machine_of(scope: int, phase: Phase = Phase.HOT, *, log_is_idle: bool = True, has: str = "") -> PartitionMachine:
    each = {what: int(what == has) for what in ("open", "aside", "withheld", "reloading")}
    rows = SimpleNamespace(waiting=SimpleNamespace(rows=int(has == "waiting")), **each)
    log = SimpleNamespace(is_idle=log_is_idle)
    return cast(PartitionMachine, SimpleNamespace(partition=Partition(scope, 0, 0), phase=phase, rows=rows, log=log))


@pytest.mark.parametrize("number", [1, RESTING_AT_ONCE, RESTING_AT_ONCE + 1, 1_000, 10_000])
def test_each_has_its_turn(number: int) -> None:
    resting = [machine_of(scope) for scope in range(1, number + 1)]
    ticking, most = Ticking(), max(RESTING_AT_ONCE, -(-number // MOST_TICKS))
    turns = max(1, -(-number // most))
    found = [ticking.chosen(resting) for _ in range(turns)]
    assert Counter(map(id, chain(*found))) == Counter(map(id, resting))
    assert max(map(len, found)) <= most


def test_what_has_something_to_do_is_ticked_always() -> None:
    busy = [
        machine_of(TIME_SCOPE),
        machine_of(1, Phase.LOAD),
        machine_of(2, log_is_idle=False),
        *(machine_of(3, has=what) for what in ("waiting", "open", "aside", "withheld", "reloading")),
    ]
    assert not any(map(rests, busy))
    ticking, resting = Ticking(), [machine_of(scope) for scope in range(10, 1_010)]
    for _ in range(20):
        chosen = ticking.chosen([*resting, *busy])
        assert chosen[-len(busy) :] == busy
        assert len(chosen) <= RESTING_AT_ONCE + len(busy)
