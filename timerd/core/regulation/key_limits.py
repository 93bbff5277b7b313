"""What the rules of a queue allow each of its limit keys: so many in hand, so many starts, and its share of the queue.

A key of which nothing is in hand, and whose rate allows its whole burst, is kept nowhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from timerd.core.dispatch import DeliveryMachine
from timerd.core.fairness import KeyRoom, LimitKeys
from timerd.core.regulation.holds import KeyHolds, labels_of
from timerd.core.regulation.key_rates import RatesOfKeys
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.lent_keys import LentKeys
from timerd.core.regulation.lent_rates import LentRate
from timerd.core.regulation.limits import HeldBack, Why
from timerd.core.regulation.rate import RateLimit
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitedKey
from timerd.model.regulations import DEFAULT_SHARE, KeyRules, QueueLimit, part_of

UNBOUNDED = 1 << 30
# Until what workers have from before a restart has been looked up.
LOOK_MS = 100


class _KeysApplied(NamedTuple):
    """`own`: limits of keys that have another one than the others; `weights`: those that are not one."""

    keys: KeyRules
    own: dict[str, QueueLimit | None]
    weights: dict[str, float]
    began_ms: int


class RuleKeyLimits:
    """Of each queue by itself; see SharedKeyLimits, which asks it. `lent`: where other instances send by these limits.
    There the share of a key is lent as its limit is, and is one of the `max_in_hand` of the queue."""

    def __init__(
        self,
        known: KnownRules,
        machine: DeliveryMachine,
        keys: LimitKeys,
        rates: RatesOfKeys,
        lent: LentKeys | None = None,
    ) -> None:
        self._known = known
        self._machine = machine
        self._hands = machine.key_hands
        self._keys = keys
        self._lent = lent
        self._held = KeyHolds()
        self._applied: dict[QueueKey, _KeysApplied] = {}
        self._rates = rates

    def rules(self, queue: QueueKey) -> object:
        return self._known.of(queue).keys

    def share(self, queue: QueueKey) -> int:
        if self._lent is not None:
            return self._lent.limits.share(queue) or UNBOUNDED
        rules = self._known.of(queue)
        share = rules.keys.share if rules.keys is not None else DEFAULT_SHARE
        if share >= 1:
            return UNBOUNDED
        whole = rules.limit.max_in_hand if rules.limit is not None else 0
        if not whole:
            hand = self._machine.known_hand(queue)
            whole = self._machine.wanted(queue) + (hand.open if hand is not None else 0)
        return part_of(share, whole)

    def hold(self, queue: QueueKey, limit_key: str, until_ms: int, now_ms: int) -> bool:
        """Nothing of the key starts before that. False: the keys of the queue are not told apart."""
        if not self._keys.has_turns(queue):
            return False
        self._held.hold(queue, limit_key, until_ms, now_ms)
        return True

    def room(self, queue: QueueKey, limit_key: str, picked: int, now_ms: int) -> KeyRoom:
        if (until_ms := self._held.until_ms(queue, limit_key, now_ms)) is not None:
            return KeyRoom(0, until_ms)
        limit = self._limit(queue, limit_key, now_ms)
        most = limit.max_in_hand if limit is not None else 0
        if most and (known_ms := self._doubt_ms(queue, now_ms)) > now_ms:
            return KeyRoom(0, known_ms)
        own, shared = self._free(queue, limit_key, most, picked)
        if min(own, shared) <= 0:
            return KeyRoom(0, math.inf, is_shared=own > 0)
        rate = self._rate(queue, limit_key, limit, now_ms) if limit is not None else None
        if rate is None:
            return KeyRoom(min(own, shared), now_ms)
        return KeyRoom(min(own, shared, rate.free(now_ms)), rate.next_ms(now_ms))

    def weight(self, queue: QueueKey, limit_key: str, now_ms: int) -> float:
        applied = self._rules_of(queue, now_ms)
        return applied.weights.get(limit_key, 1.0) if applied is not None else 1.0

    def sent(self, queue: QueueKey, limit_key: str, tasks: int, now_ms: int) -> None:
        limit = self._limit(queue, limit_key, now_ms)
        rate = self._rate(queue, limit_key, limit, now_ms) if limit is not None else None
        if rate is not None:
            rate.sent(tasks, now_ms)

    def opened(self, queues: Iterable[QueueKey]) -> None:
        """Their rules are other ones."""
        for queue in queues:
            self._keys.opened(queue)

    def held_back(self, queue: QueueKey, limit_key: str, now_ms: int) -> HeldBack | None:
        """By the key's own limit or share. None: it may send one more now."""
        if not self._keys.has_turns(queue):
            return None
        if (until_ms := self._held.until_ms(queue, limit_key, now_ms)) is not None:
            return HeldBack(until_ms, limit_key, Why.KEY_THROTTLED)
        room = self.room(queue, limit_key, 0, now_ms)
        return None if room.tasks else HeldBack(room.next_ms, limit_key, Why.SHARE if room.is_shared else Why.KEY)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _free(self, queue: QueueKey, limit_key: str, most: int, picked: int) -> tuple[int, int]:
        """How many of a key may go by its own limit of so many in hand, and by its share. Tasks that nobody told apart
        are no customer's."""
        if self._lent is None:
            in_hand = self._hands.open(queue, limit_key) + picked
            own = most - in_hand if most else UNBOUNDED
            return own, self.share(queue) - in_hand if limit_key else UNBOUNDED
        key = LimitedKey(labels_of(queue, ""), limit_key)
        if not limit_key or not self._lent.limits.most_of(key):
            return UNBOUNDED, UNBOUNDED
        free = self._lent.free(key) - picked
        return (UNBOUNDED, free) if self.share(queue) < (most or UNBOUNDED) else (free, UNBOUNDED)

    def _limit(self, queue: QueueKey, limit_key: str, now_ms: int) -> QueueLimit | None:
        applied = self._rules_of(queue, now_ms)
        return applied.own.get(limit_key, applied.keys.limit) if applied is not None else None

    def _rules_of(self, queue: QueueKey, now_ms: int) -> _KeysApplied | None:
        keys = self._known.of(queue).keys
        if keys is None:
            return None
        applied = self._applied.get(queue)
        if applied is None or applied.keys is not keys:
            applied = _KeysApplied(keys, dict(keys.overrides), dict(keys.weights), now_ms)
            self._applied[queue] = applied
        return applied

    def _doubt_ms(self, queue: QueueKey, now_ms: int) -> float:
        """Where they are lent, the keeper hears of what workers bring."""
        is_single = self._lent is None and self._known.is_from_before(queue)
        return doubt_ms(self._machine, now_ms) if is_single else now_ms

    def _rate(self, queue: QueueKey, limit_key: str, limit: QueueLimit, now_ms: int) -> RateLimit | LentRate | None:
        if not limit.rate:
            return None
        key = LimitedKey(labels_of(queue, ""), limit_key)
        return self._rates.of(key, limit, now_ms, partial(self._is_known, queue, limit, now_ms))

    def _is_known(self, queue: QueueKey, limit: QueueLimit, now_ms: int) -> bool:
        """Of a key of which nothing is known: as after a start, where it may have been sent before that."""
        since_ms = now_ms - self._applied[queue].began_ms
        return not self._known.is_from_before(queue) or since_ms * limit.rate >= limit.burst * limit.period_ms


def doubt_ms(machine: DeliveryMachine, now_ms: int) -> float:
    """Until when nobody knows what workers have from before a restart."""
    known_ms = machine.before.brought.doubt_ms(now_ms)
    return now_ms + LOOK_MS if known_ms == math.inf else known_ms
