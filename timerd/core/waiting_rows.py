"""Many rows of a partition that wait, and of which nothing else is known: the common case of a cancel of many, asked
and answered for all of them at once. Where anything is known of one of them, each is asked by itself."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.core.holding import Asked
from timerd.core.partition_machine import PartitionMachine
from timerd.core.rows_in_hand import RowsInHand
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.settle import Outcome

Keys = Sequence[RowKey]


def all_wait(machine: PartitionMachine, keys: Keys) -> bool:
    """Whether `machine.ask` says of each that it waits. False: of one it does not, or may not."""
    positions_ms = [key.position_ms for key in keys]
    is_read = machine.floor_ms <= min(positions_ms) and max(positions_ms) < machine.sweep.loaded_ms
    if not machine.phase.answers or not is_read:
        return False
    rows, digests = machine.rows, [key.digest for key in keys]
    if not (rows.open.keys().isdisjoint(digests) and rows.alive.keys().isdisjoint(digests)):
        return False
    if not (rows.row_verdicts.keys().isdisjoint(keys) and rows.left.keys().isdisjoint(keys)):
        return False
    return _no_verdicts(rows, keys, digests) and not machine.log.settled.knows_any(keys)


def end_waiting(machine: PartitionMachine, keys: Keys, outcome: Outcome, request: bytes) -> Asked | None:
    """As `ask`, `cancel` and `end_waiting` of the machine for each: the verdict is remembered, and what waits is over.
    None: nothing was done, for something is known of one of them."""
    digests = [key.digest for key in keys]
    if not machine.phase.answers:
        if not _no_verdicts(machine.rows, keys, digests):
            return None
        machine.rows.verdicts.give_all(digests, outcome, request)
        return Asked.UNKNOWN
    if not all_wait(machine, keys):
        return None
    machine.rows.verdicts.give_all(digests, outcome, request)
    machine.log.end([(key, outcome) for key in keys])
    return Asked.WAITING


def _no_verdicts(rows: RowsInHand, keys: Keys, digests: Sequence[bytes]) -> bool:
    known = rows.verdicts.keys()
    ids = (delivery_id_of(key.digest, key.version) for key in keys)
    return not known or (known.isdisjoint(digests) and known.isdisjoint(ids))
