"""What an instance goes by when it sends: made before its delivery, which asks it, and changed by `Regulating`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial

from timerd.core.dispatch import MAX_DELIVER_TASKS, DeliveryMachine, Limit
from timerd.core.partition import Memory
from timerd.core.regulation import (
    AdaptiveLimits,
    Breakers,
    KeyRates,
    KnownRules,
    LentKeyRates,
    LentKeys,
    LentLimits,
    LentRates,
    LimitedKey,
    RuledQueues,
    RuleKeyLimits,
    RuleLimits,
    SharedKeyLimits,
    Standstills,
    labels_of,
)
from timerd.core.taken import QueueKey
from timerd.model.pushback import Pushback
from timerd.services.dispatch.delivery import HoldsLimit
from timerd.services.engine.loaded import Loaded
from timerd.services.engine.taking_turns import FILED_AT_ONCE
from timerd.services.holding.scheduler import Scheduler
from timerd.services.peers.peers import Peers
from timerd.services.regulation.borrowing import Borrowing
from timerd.services.regulation.drawing import Drawing
from timerd.services.regulation.key_borrowing import KeyBorrowing
from timerd.services.regulation.key_drawing import KeyDrawing
from timerd.services.regulation.key_token_issuer import KeyTokenIssuer
from timerd.services.regulation.limit_peers import LimitPeers
from timerd.services.regulation.placing import Placing
from timerd.services.regulation.regulating import Regulating
from timerd.services.regulation.token_issuer import TokenIssuer
from timerd.services.regulation.told import RuleTelling

# What falls due while a call for tokens is under way is counted for it: so one call does for many tasks.
DUE_SOON_MS = 100


def due_soon(scheduler: Scheduler, now_ms: Callable[[], int], queue: QueueKey) -> int:
    """How many tasks of the queue are due here, or will be while a call is under way."""
    until_ms = now_ms() + DUE_SOON_MS
    return sum(each.due_rows(queue, until_ms, MAX_DELIVER_TASKS) for each in scheduler.machines.values())


def filed(loaded: Loaded, queue: QueueKey, now_ms: int) -> float:
    """What is due of the queue is told apart by its limit keys, some at once. Returns when there is more to."""
    giving = loaded.giving(queue) if not loaded.is_opening(queue) else []
    for each in giving:
        if (due_ms := each.next_ms(queue)) is not None and due_ms <= now_ms:
            each.file_due(queue, FILED_AT_ONCE, now_ms)
    return max(now_ms + 1, min((ms for each in giving if (ms := each.next_ms(queue)) is not None), default=math.inf))


class RulesInForce:
    """`opened`: is told of queues that may send now. `lease_ms`: the longest lease of a worker. `due`: how many tasks
    of a queue are due here, or soon will be. `boot_ms`: a clock that is never set. `is_single`: there are no other
    instances."""

    def __init__(
        self,
        machine: DeliveryMachine,
        opened: Callable[[Collection[QueueKey]], None],
        lease_ms: Callable[[], int],
        due: Callable[[QueueKey], int],
        boot_ms: Callable[[], float],
        name: str,
        *,
        is_single: bool,
    ) -> None:
        self.known = KnownRules()
        breakers = Breakers(self.known, machine.hand, opened, name)
        self.still = Standstills(self.known, breakers, AdaptiveLimits(self.known, machine.hand, opened))
        brought = machine.before.brought
        unplaced = lambda: len(brought.unplaced())  # noqa: E731 - a fact of the machine
        self.lent = None if is_single else LentLimits(self.known, machine.known_hand, unplaced, lease_ms)
        self.lent_keys = None if is_single else LentKeys(self.known, machine.key_hands, unplaced, lease_ms)
        self.rates = None if is_single else LentRates(self.known, due, boot_ms)
        self.by_rules = RuleLimits(self.known, machine.known_hand, opened, brought.doubt_ms, self.lent, self.rates)
        self._machine = machine
        self._boot_ms = boot_ms
        self._opened = opened

    @property
    def limits(self) -> Sequence[Limit]:
        return (RuledQueues(self.known, (self.by_rules, *self.still.by_rules)), self.still.holds)

    @property
    def hold(self) -> HoldsLimit:
        return self.still.holds.hold if self.rates is None else partial(self._hold, self.rates)

    def moved(self, queue: QueueKey, limit_key: str, deliveries: int) -> None:
        """Another instance has them from now on."""
        if self.lent is not None:
            self.lent.moved(queue, deliveries)
        if self.lent_keys is not None:
            self.lent_keys.moved(queue, limit_key, deliveries)

    def regulating(self, scheduler: Scheduler, peers: Peers | None, now_ms: Callable[[], int]) -> Regulating:
        """Who reads the rules and changes them. `peers`: where there are other instances."""
        runner, membership = scheduler.procedures, scheduler.membership
        telling = RuleTelling(peers, membership, runner) if peers is not None else None
        key_rates = self._key_rates(scheduler.memory.limit_keys.waiting)
        keys = self._keys(scheduler.memory, key_rates)
        if key_rates is not None:
            self.by_rules.draws_by(key_rates.draw_order, partial(self._opens_ms, keys, Loaded(scheduler)))
        borrowing = drawing = key_borrowing = key_drawing = None
        if peers is not None and self.lent is not None and self.rates is not None and self.lent_keys is not None:
            granted, asking = self.by_rules.granted, LimitPeers(peers, membership)
            parts = membership, runner, self._boot_ms
            borrowing = Borrowing(self.lent, asking, *parts, granted)
            issuer = TokenIssuer(borrowing.keepers, self.lent, membership, self._boot_ms)
            drawing = Drawing(self.rates, issuer, peers, membership, granted)
            key_borrowing = KeyBorrowing(self.lent_keys, asking, *parts, partial(self._granted, keys))
            if key_rates is not None:
                of_keys = KeyTokenIssuer(key_borrowing.keepers, self.lent_keys.limits, membership, self._boot_ms)
                key_drawing = KeyDrawing(key_rates, of_keys, asking, membership, partial(self._granted, keys))
        placing = Placing(self._machine.before.brought, scheduler.finder.owner_of, now_ms)
        by_deadlines = lambda queue, is_so: scheduler.memory.limit_keys.go_by_deadlines(queue, is_so=is_so)  # noqa: E731
        lends = borrowing, drawing, key_borrowing, key_drawing
        rest = telling, self._opened, self._boot_ms, self.still, placing, keys, *lends, by_deadlines
        return Regulating(self.known, self.by_rules, runner, membership, *rest)

    def _hold(self, rates: LentRates, queue: QueueKey, limit_key: str, throttle: Pushback, now_ms: int) -> str:
        """Here at once, and on all instances where the limit has a rate."""
        if refusal := self.still.holds.hold(queue, limit_key, throttle, now_ms):
            return refusal
        labels = labels_of(queue, throttle.limit)
        # Not where it is a limit key that is held.
        is_held = self.still.holds.held_until_ms(labels, now_ms) is not None
        if is_held and self.by_rules.has_rate(labels):
            rates.hold(labels, throttle.after_ms)
        return ""

    @staticmethod
    def _opens_ms(keys: SharedKeyLimits, loaded: Loaded, queue: QueueKey, draws: int, now_ms: int) -> float:
        """When one of the keys of the queue may go, also one that has something due since a moment ago."""
        if (opens_ms := keys.opens_ms(queue, draws, now_ms)) <= now_ms:
            return opens_ms
        next_ms = filed(loaded, queue, now_ms)
        return min(keys.opens_ms(queue, draws, now_ms), next_ms)

    def _granted(self, keys: SharedKeyLimits, more: Collection[LimitedKey]) -> None:
        if opened := keys.granted(more):
            self._opened(opened)

    def _key_rates(self, waiting: Callable[[QueueKey, str], int]) -> LentKeyRates | None:
        """None: there are no other instances."""
        return None if self.lent_keys is None else LentKeyRates(self.lent_keys.limits, waiting, self._boot_ms)

    def _keys(self, memory: Memory, lent_rates: LentKeyRates | None) -> SharedKeyLimits:
        parts, rates = (
            (self.known, self._machine, memory.limit_keys),
            lent_rates if lent_rates is not None else KeyRates(),
        )
        of_queues = RuleKeyLimits(*parts, rates, self.lent_keys)
        keys = SharedKeyLimits(*parts, of_queues, rates, self.lent_keys, lent_rates)
        self.still.holds.holds_keys_by(keys.hold)
        return keys
