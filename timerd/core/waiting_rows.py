"""Many rows of a partition that wait, and of which nothing else is known: the common case of a cancel of many, asked
and answered for all of them at once. Where anything is known of one of them, each is asked by itself."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.core.holding import Asked
from timerd.core.partition_machine import PartitionMachine
from timerd.model.identity import RowKey
from timerd.model.row_keys import RowKeys, digests_of, span_of
from timerd.model.settle import Outcome, entries_with

Keys = Sequence[RowKey]


def all_wait(machine: PartitionMachine, keys: Keys) -> bool:
    """Whether `machine.ask` says of each that it waits. False: of one it does not, or may not."""
    first_ms, last_ms = span_of(keys)
    is_read = machine.floor_ms <= first_ms and last_ms < machine.sweep.loaded_ms
    if not machine.phase.answers or not is_read:
        return False
    rows, digests = machine.rows, digests_of(keys)
    if not (rows.open.keys().isdisjoint(digests) and rows.alive.keys().isdisjoint(digests)):
        return False
    # Mostly there are none, and no key needs to be made to see that.
    if (rows.row_verdicts or rows.left) and not (
        rows.row_verdicts.keys().isdisjoint(keys) and rows.left.keys().isdisjoint(keys)
    ):
        return False
    return not rows.verdicts.knows_any(keys, digests) and not machine.log.settled.knows_any(keys)


def end_waiting(machine: PartitionMachine, keys: Keys, outcome: Outcome, request: bytes) -> Asked | None:
    """As `ask`, `cancel` and `end_waiting` of the machine for each: the verdict is remembered, and what waits is over.
    None: nothing was done, for something is known of one of them."""
    digests = digests_of(keys)
    if not machine.phase.answers:
        if machine.rows.verdicts.knows_any(keys, digests):
            return None
        machine.rows.verdicts.give_all(digests, outcome, request)
        return Asked.UNKNOWN
    if not all_wait(machine, keys):
        return None
    machine.rows.verdicts.give_all(digests, outcome, request)
    if isinstance(keys, RowKeys):
        machine.log.end_together(entries_with(keys, outcome))
    else:
        machine.log.end([(key, outcome) for key in keys])
    return Asked.WAITING
