"""What the server's credit counts for: the queue of a lane, or the slots of a pool that several lanes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from timerd.sdk.working.lanes import Lane
from timerd.sdk.working.pools import SharedSlots
from timerd.v1 import work_service_pb2 as pb


@dataclass(slots=True, eq=False)
class Account:
    """`pool`: whose slots it has; None: it is the queue of its one lane."""

    pool: SharedSlots | None
    lanes: list[Lane] = field(default_factory=list)

    @property
    def credit(self) -> int:
        return self.lanes[0].credit if self.pool is None else self.pool.slots

    @property
    def held(self) -> int:
        """Delivered and not ended."""
        return self.lanes[0].held if self.pool is None else sum(lane.held for lane in self.lanes)

    @property
    def waiting(self) -> int:
        """Delivered and not begun. Of a pool nothing is read ahead."""
        return self.lanes[0].waiting if self.pool is None else 0

    def credited(self, tasks: int) -> pb.Credit:
        """So many more."""
        if self.pool is None:
            return pb.Credit(queue=self.lanes[0].queue, tasks=tasks)
        return pb.Credit(pool=self.pool.name, tasks=tasks)


def accounts_of(lanes: Mapping[str, Lane]) -> dict[str, Account]:
    """Queue -> account. Those of one pool share one."""
    accounts: dict[str, Account] = {}
    shared: dict[SharedSlots, Account] = {}
    for queue, lane in lanes.items():
        account = Account(None) if lane.pool is None else shared.setdefault(lane.pool, Account(lane.pool))
        account.lanes.append(lane)
        accounts[queue] = account
    return accounts


def declared(accounts: Iterable[Account]) -> list[pb.Pool]:
    """For the server."""
    return [
        pb.Pool(name=each.pool.name, queues=[lane.queue for lane in each.lanes], slots=each.pool.slots)
        for each in accounts
        if each.pool is not None
    ]
