"""What an instance goes by when it sends: made before its delivery, which asks it, and changed by `Regulating`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from timerd.core.dispatch import DeliveryMachine, Limit
from timerd.core.partition import Memory
from timerd.core.regulation import Breakers, KnownRules, LentLimits, RuleKeyLimits, RuleLimits, Standstills
from timerd.core.taken import QueueKey
from timerd.services.dispatch.delivery import HoldsLimit
from timerd.services.holding.scheduler import Scheduler
from timerd.services.peers.peers import Peers
from timerd.services.regulation.borrowing import Borrowing
from timerd.services.regulation.placing import Placing
from timerd.services.regulation.regulating import Regulating
from timerd.services.regulation.told import RuleTelling


class RulesInForce:
    """`opened`: is told of queues that may send now. `lease_ms`: the longest lease of a worker. `is_single`: there are
    no other instances."""

    def __init__(
        self,
        machine: DeliveryMachine,
        opened: Callable[[Collection[QueueKey]], None],
        lease_ms: Callable[[], int],
        name: str,
        *,
        is_single: bool,
    ) -> None:
        self.known = KnownRules()
        self.still = Standstills(self.known, Breakers(self.known, machine.hand, opened, name))
        brought = machine.before.brought
        unplaced = lambda: len(brought.unplaced())  # noqa: E731 - a fact of the machine
        self.lent = None if is_single else LentLimits(self.known, machine.known_hand, unplaced, lease_ms)
        self.by_rules = RuleLimits(self.known, machine.known_hand, opened, brought.doubt_ms, self.lent)
        self._machine = machine
        self._opened = opened

    @property
    def limits(self) -> Sequence[Limit]:
        return (self.by_rules, *self.still.limits)

    @property
    def hold(self) -> HoldsLimit:
        return self.still.holds.hold

    def moved(self, queue: QueueKey, deliveries: int) -> None:
        """Another instance has them from now on."""
        if self.lent is not None:
            self.lent.moved(queue, deliveries)

    def regulating(
        self, scheduler: Scheduler, peers: Peers | None, now_ms: Callable[[], int], boot_ms: Callable[[], float]
    ) -> Regulating:
        """Who reads the rules and changes them. `peers`: where there are other instances."""
        runner, membership = scheduler.procedures, scheduler.membership
        telling = RuleTelling(peers, membership, runner) if peers is not None else None
        borrowing = None
        if peers is not None and self.lent is not None:
            borrowing = Borrowing(self.lent, peers, membership, runner, boot_ms, self.by_rules.granted)
        placing = Placing(self._machine.before.brought, scheduler.finder.owner_of, now_ms)
        keys = self._keys(scheduler.memory) if peers is None else None
        rest = telling, self._opened, boot_ms, self.still, placing, keys, borrowing
        return Regulating(self.known, self.by_rules, runner, membership, *rest)

    def _keys(self, memory: Memory) -> RuleKeyLimits:
        return RuleKeyLimits(self.known, self._machine, memory.limit_keys)
