"""A delivery that fails after its row was carried on (at the lag limit, at a stop): the row that waits in its place
for the lease to end goes on as the next attempt or ends, as the row that was sent would have done.
"""

from __future__ import annotations

from collections.abc import Sequence

from timerd.core.carry import carried_row, retry_carry
from timerd.core.holding import Asked
from timerd.core.lookup import Located
from timerd.core.partition_machine import PartitionMachine
from timerd.core.procedures import Find, Procedure
from timerd.core.taken import Again
from timerd.model.identity import RowKey, next_attempt
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import WRITTEN_BY_HOLDERS, RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Found


def waits_for(here: Located, sent: RowKey) -> bool:
    """Whether the row that was found stands for this delivery. The row of a later attempt has no lease, so what an
    older attempt says, or says twice, finds nothing."""
    if here.rows is None or here.ending.outcome is not None:
        return False
    version = here.place.key.version
    is_leased = here.rows.extra_of(0).lease_until_ms > 0
    return version == sent.version or (is_leased and version == next_attempt(sent.version))


def may_leave(machine: PartitionMachine, key: RowKey) -> bool:
    """Not while a move of it is undecided: both rows would fire."""
    return machine.ask(key)[0] is Asked.WAITING and key.digest not in machine.rows.suspended


def has_ended_as_another(machine: PartitionMachine, here: Located) -> bool:
    """Whether the row is a copy of one that is over for good, by which it ends when it is met (core/repeats.py)."""
    if here.rows is None or int(here.rows.columns["flags"][0]) & WRITTEN_BY_HOLDERS:
        return False
    return isinstance(machine.log.lately.otherwise(here.place.key), Outcome)


def free_position(place: Partition, again: Again) -> Procedure[int]:
    """Where the next attempt may live: the row may have waited at that very instant before, and has ended there. Nor
    in an earlier bucket than the waiting row's: from there it might be carried to a lease's end in this one, which only
    the holder of this one knows it has waited for before."""
    position_ms, version = max(again.position_ms, place.bucket_ms), next_attempt(again.key.version)
    while True:
        target = Partition(TIME_SCOPE, bucket_of(position_ms), place.shard)
        found: Found = (yield Find(target, [(position_ms, again.key.digest)]))[0]
        if version not in found.rows.columns["version"].tolist():
            return position_ms
        position_ms += 1


def again_waiting(machine: PartitionMachine, key: RowKey, rows: RowGroup, again: Again) -> int:
    """Carries the waiting row on; its number of attempts goes by the delivery that failed. Returns the ticket."""
    carry = retry_carry(machine.partition, again)._replace(source=key)
    machine.rows.leave(key, Outcome.CARRIED)
    machine.log.carry([carry], (carry.target, carried_row(rows, 0, machine.partition, carry)))
    return machine.log.ticket


def end_all_waiting(machine: PartitionMachine, keys: Sequence[RowKey]) -> set[RowKey]:
    """Of these, those that wait here end as acked, by one record: the machine's log has its ticket."""
    ended: set[RowKey] = set()
    for key in keys:
        if key not in ended and may_leave(machine, key):
            machine.rows.leave(key, Outcome.ACKED)
            ended.add(key)
    if ended:
        machine.log.end([(key, Outcome.ACKED) for key in ended])
    return ended


def end_waiting(machine: PartitionMachine, key: RowKey, outcome: Outcome) -> int:
    """Ends this row and no other of its task, which may live again (Redrive). Returns the ticket."""
    machine.rows.leave(key, outcome)
    machine.end_waiting(key, outcome)
    return machine.log.ticket
