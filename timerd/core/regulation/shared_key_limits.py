"""Limits with a name that each limit key has for itself, over all queues that list them: ten calls at a time of each
customer, whichever queue they are of.

A key goes when its queue and all such limits of the queue allow it; what one of them keeps back takes nothing from the
others. Permits are counted by what is in hand, so nothing is given back and nothing can leak. A task without a limit
key is no customer's, and goes by none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from timerd.core.dispatch import DeliveryMachine
from timerd.core.fairness import KeyRoom, LimitKeys
from timerd.core.regulation.holds import KeyHolds, labels_of
from timerd.core.regulation.key_limits import UNBOUNDED, RuleKeyLimits, doubt_ms
from timerd.core.regulation.key_rates import RatesOfKeys
from timerd.core.regulation.key_use import KeyUses
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.lent_key_rates import LentKeyRates
from timerd.core.regulation.lent_keys import LentKeys
from timerd.core.regulation.lent_rates import LentRate
from timerd.core.regulation.limits import HeldBack, Why
from timerd.core.regulation.rate import RateLimit
from timerd.core.taken import QueueKey
from timerd.model.keeping import LimitedKey, LimitLabels
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import QueueLimit

# Of a limit so many keys are looked at by who asks which of them may start nothing.
MOST_LOOKED_AT = 10_000


class KeyAtLimit(NamedTuple):
    """A key that may start nothing by a limit. `waiting`: its due rows of all queues that list it. `next_ms`: when it
    may; infinite: when something of it has ended."""

    limit_key: str
    in_hand: int
    waiting: int
    next_ms: float
    is_throttled: bool


class _KeyedLimit(NamedTuple):
    """One as it is by now. `own`: of keys that have another limit than the others; None: none."""

    name: LimitName
    kept: NamedLimit
    own: dict[str, QueueLimit | None]

    def limit(self, limit_key: str) -> QueueLimit | None:
        return self.own.get(limit_key, self.kept.limit)


class _Listed(NamedTuple):
    """The keyed limits of a queue, by the rules as they were then. `of_queue`: what else its keys go by; `rules`:
    another object, other rules."""

    news: int
    limits: tuple[_KeyedLimit, ...]
    of_queue: object
    rules: object


class SharedKeyLimits:
    """Implements core.fairness.KeyLimits. `queues`: what each queue allows its keys. `rates`: of all keys. `lent`, with
    `lent_rates`: where other instances send by these limits."""

    def __init__(
        self,
        known: KnownRules,
        machine: DeliveryMachine,
        keys: LimitKeys,
        queues: RuleKeyLimits,
        rates: RatesOfKeys,
        lent: LentKeys | None = None,
        lent_rates: LentKeyRates | None = None,
    ) -> None:
        self._known = known
        self._machine = machine
        self._hands = machine.key_hands
        self._keys = keys
        self._queues = queues
        self.lent = lent
        # Of which key it was asked last how many may go, when so many were about to be sent.
        self._asked: tuple[QueueKey, str, int] | None = None
        self._held = KeyHolds()
        self._rates = rates
        self._lent_rates = lent_rates
        self._limits: dict[LimitName, _KeyedLimit] = {}
        self._listed: dict[QueueKey, _Listed] = {}
        # When the first rate of each was needed here.
        self._began_ms: dict[LimitName, int] = {}
        # (namespace, limit key) -> queues that wait until less of the key is in hand, and who is told.
        self._waiting: dict[tuple[str, str], dict[QueueKey, Callable[[], None]]] = {}
        self.use = KeyUses(known, machine, keys, rates)
        keys.goes_by(self)

    def rules(self, queue: QueueKey) -> object:
        return self._of(queue).rules

    def share(self, queue: QueueKey) -> int:
        return self._queues.share(queue)

    def room(self, queue: QueueKey, limit_key: str, picked: int, now_ms: int) -> KeyRoom:
        """Of several that allow nothing, the one that does so for longest says when to ask again."""
        self._asked = queue, limit_key, picked
        rooms = [self._queues.room(queue, limit_key, picked, now_ms)]
        rooms += [self._room(each, limit_key, picked, now_ms) for each in self._by(queue, limit_key)]
        least = min(rooms, key=lambda room: room.tasks)
        if least.tasks:
            return least
        shut = [room for room in rooms if not room.tasks]
        last = max(shut, key=lambda room: room.next_ms)
        last = last._replace(tasks=0, is_shared=all(room.is_shared for room in shut))
        if self._lent_rates is not None and queue in self._lent_rates.draw_order:
            return self._of_few(self._lent_rates, queue, limit_key, last, picked, now_ms)
        return last

    def weight(self, queue: QueueKey, limit_key: str, now_ms: int) -> float:
        return self._queues.weight(queue, limit_key, now_ms)

    def sent(self, queue: QueueKey, limit_key: str, tasks: int, now_ms: int) -> None:
        self._queues.sent(queue, limit_key, tasks, now_ms)
        if self._lent_rates is not None:
            self._lent_rates.sent(queue, limit_key, tasks)
        if self.lent is not None:
            self.lent.used(queue, limit_key, tasks)
        for each in self._by(queue, limit_key):
            limit = each.limit(limit_key)
            if limit is not None and (rate := self._rate(each, limit_key, limit, now_ms)) is not None:
                rate.sent(tasks, now_ms)

    def on_less(self, queue: QueueKey, limit_key: str, told: Callable[[], None]) -> None:
        """Who waits hears of the next end of any delivery of the key that counts for it."""
        self._waiting.setdefault((queue.namespace, limit_key), {})[queue] = told
        for other in {queue, *self._sharing(queue)}:
            # What is about to be sent of this queue is not in hand yet.
            if other == queue or self._hands.open(other, limit_key):
                self._hands.of(other, limit_key).on_less = partial(self._less, queue.namespace, limit_key)
        if self.lent is not None and not self._want(self.lent, queue, limit_key) and self._lent_rates is not None:
            self._lent_rates.want(queue, limit_key)

    def opens_ms(self, queue: QueueKey, draws: int, now_ms: int) -> float:
        """When one of the keys may go, as far as is known; up to so many of them draw a token."""
        return self._keys.opens_ms(queue, draws, now_ms)

    def granted(self, keys: Iterable[LimitedKey]) -> set[QueueKey]:
        """More of them may be sent than before. Returns the queues that waited for it."""
        opened: set[QueueKey] = set()
        for owner in {(key.limit.namespace, key.limit_key) for key in keys}:
            opened.update(self._waiting.get(owner, ()))
            self._less(*owner)
        return opened

    def hold(self, queue: QueueKey, limit: str, limit_key: str, until_ms: int, now_ms: int) -> bool:
        """Nothing of the key starts by the limit before that; without a name, of the queue. False: keys are not told
        apart."""
        if not self._held_here(queue, limit, limit_key, until_ms, now_ms):
            return False
        if self._lent_rates is not None:
            self._lent_rates.hold(LimitedKey(labels_of(queue, limit), limit_key), until_ms - now_ms)
        return True

    def opened(self, queues: Iterable[QueueKey]) -> set[QueueKey]:
        """Their rules are other ones, so others that wait with them may go as well. Returns all of them."""
        opened = set(queues)
        for owner, waiting in list(self._waiting.items()):
            opened.update(waiting)
            for queue in list(waiting):
                self._forget(owner, queue)
        self._queues.opened(opened)
        return opened

    def held_back(self, queue: QueueKey, limit_key: str, now_ms: int) -> list[HeldBack]:
        """By which limits of the key, and its share. None of them: it may send one more now."""
        own = self._queues.held_back(queue, limit_key, now_ms)
        held = [own] if own is not None and self._is_short(queue, limit_key, own.until_ms) else []
        if self._keys.has_turns(queue):
            for each in self._by(queue, limit_key):
                room = self._room(each, limit_key, 0, now_ms)
                if not room.tasks and self._is_short(queue, limit_key, room.next_ms):
                    is_held = self._held.until_ms(each.name, limit_key, now_ms) is not None
                    why = Why.KEY_THROTTLED if is_held else Why.KEY
                    held.append(HeldBack(room.next_ms, limit_key, why, each.name.limit))
        return held

    def at_limit(self, name: LimitName, now_ms: int) -> list[KeyAtLimit]:
        """Keys that may start nothing by it now, those with the most due rows first; of those that were looked at."""
        if not self._known.is_keyed(name):
            return []
        by = self._made(name)
        looked_at = dict.fromkeys(key for key in islice(self._seen(name, now_ms), MOST_LOOKED_AT) if key)
        found = [self._at_limit(by, key, room, now_ms) for key in looked_at if (room := self._shut(by, key, now_ms))]
        return sorted(found, key=lambda each: (-each.waiting, -each.in_hand, each.limit_key))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _held_here(self, queue: QueueKey, limit: str, limit_key: str, until_ms: int, now_ms: int) -> bool:
        if not limit:
            return self._queues.hold(queue, limit_key, until_ms, now_ms)
        if not limit_key or not self._keys.has_turns(queue):
            return False
        self._held.hold(LimitName(queue.namespace, limit), limit_key, until_ms, now_ms)
        return True

    def _want(self, lent: LentKeys, queue: QueueKey, limit_key: str) -> bool:
        """Of each limit of which no more permits are here than are about to be used. Whether there is one: permits come
        first, for they stay, and a token would lapse."""
        picked = self._asked[2] if self._asked is not None and self._asked[:2] == (queue, limit_key) else 0
        short = self._full(lent, queue, limit_key, picked)
        for key in short:
            lent.want(key)
        return bool(short)

    @staticmethod
    def _full(lent: LentKeys, queue: QueueKey, limit_key: str, picked: int) -> list[LimitedKey]:
        """Limits of which no more permits are here than are about to be used."""
        return [key for key in lent.keys_of(queue, limit_key) if lent.free(key) <= picked]

    def _of_few(
        self, rates: LentKeyRates, queue: QueueKey, limit_key: str, room: KeyRoom, picked: int, now_ms: int
    ) -> KeyRoom:
        """Of a queue that may start few, where the key may start nothing: what is known of its tokens, once there are
        permits."""
        if not limit_key or (self.lent is not None and self._full(self.lent, queue, limit_key, picked)):
            return room
        known = rates.known(queue, limit_key)
        if known is None:
            return room
        if known.next_ms == math.inf:
            # Else it was throttled.
            is_asked = room.next_ms == math.inf
            draws = is_asked and rates.draw_order.draws(queue, limit_key)
            return room._replace(draws=draws, may=is_asked and known.may)
        next_ms = now_ms + max(1, math.ceil(known.next_ms - rates.boot_ms()))
        if next_ms < room.next_ms < math.inf:
            return room
        return room._replace(next_ms=next_ms, may=known.may)

    def _is_short(self, queue: QueueKey, limit_key: str, next_ms: float) -> bool:
        """Where they are lent, none is here as long as nobody wants one."""
        return self.lent is None or next_ms < math.inf or queue in self._waiting.get((queue.namespace, limit_key), ())

    def _room(self, by: _KeyedLimit, limit_key: str, picked: int, now_ms: int) -> KeyRoom:
        if (until_ms := self._held.until_ms(by.name, limit_key, now_ms)) is not None:
            return KeyRoom(0, until_ms, limit=by.name.limit)
        limit = by.limit(limit_key)
        if limit is None:
            return KeyRoom(UNBOUNDED, now_ms)
        room = UNBOUNDED
        if limit.max_in_hand:
            is_from_before = self.lent is None and self._known.was_there_before(by.name)
            if is_from_before and (known_ms := doubt_ms(self._machine, now_ms)) > now_ms:
                return KeyRoom(0, known_ms, limit=by.name.limit)
            room = self._free(by, limit_key, limit) - picked
        if room <= 0:
            return KeyRoom(0, math.inf, limit=by.name.limit)
        rate = self._rate(by, limit_key, limit, now_ms)
        free, next_ms = (room, now_ms) if rate is None else (min(room, rate.free(now_ms)), rate.next_ms(now_ms))
        return KeyRoom(free, next_ms, limit=by.name.limit)

    def _free(self, by: _KeyedLimit, limit_key: str, limit: QueueLimit) -> int:
        if self.lent is not None:
            return self.lent.free(LimitedKey(LimitLabels(by.name.namespace, "", by.name.limit), limit_key))
        return limit.max_in_hand - self._in_hand(by.name, limit_key)

    def _shut(self, by: _KeyedLimit, limit_key: str, now_ms: int) -> KeyRoom | None:
        room = self._room(by, limit_key, 0, now_ms)
        is_short = any(self._is_short(each, limit_key, room.next_ms) for each in self._known.listed_by(by.name))
        return None if room.tasks or not is_short else room

    def _at_limit(self, by: _KeyedLimit, limit_key: str, room: KeyRoom, now_ms: int) -> KeyAtLimit:
        waiting = sum(self._keys.waiting(queue, limit_key) for queue in self._known.listed_by(by.name))
        is_throttled = self._held.until_ms(by.name, limit_key, now_ms) is not None
        return KeyAtLimit(limit_key, self._in_hand(by.name, limit_key), waiting, room.next_ms, is_throttled)

    def _seen(self, name: LimitName, now_ms: int) -> Iterator[str]:
        """Keys that wait, are in hand, are held or have started something."""
        queues = self._known.listed_by(name)
        for queue in queues:
            yield from (line.limit_key for line in self._keys.held(queue, now_ms))
        yield from (limit_key for queue, limit_key in self._hands.owners() if queue in queues)
        yield from self._held.keys_of(name)
        labels = LimitLabels(name.namespace, "", name.limit)
        yield from (limit_key for of, limit_key in self._rates.owners() if of == labels)

    def _in_hand(self, name: LimitName, limit_key: str) -> int:
        return sum(self._hands.open(queue, limit_key) for queue in self._known.listed_by(name))

    def _rate(self, by: _KeyedLimit, limit_key: str, limit: QueueLimit, now_ms: int) -> RateLimit | LentRate | None:
        if not limit.rate:
            return None
        key = LimitedKey(LimitLabels(by.name.namespace, "", by.name.limit), limit_key)
        return self._rates.of(key, limit, now_ms, partial(self._is_known, by, limit, now_ms))

    def _is_known(self, by: _KeyedLimit, limit: QueueLimit, now_ms: int) -> bool:
        """Before this instance began something may have been sent."""
        since_ms = now_ms - self._began_ms.setdefault(by.name, now_ms)
        return not self._known.was_there_before(by.name) or since_ms * limit.rate >= limit.burst * limit.period_ms

    def _by(self, queue: QueueKey, limit_key: str) -> tuple[_KeyedLimit, ...]:
        return self._of(queue).limits if limit_key else ()

    def _of(self, queue: QueueKey) -> _Listed:
        found, news = self._listed.get(queue), self._known.news
        if found is not None and found.news == news:
            return found
        of_queue, names = self._queues.rules(queue), self._known.of(queue).limits
        keyed = [name for each in names if self._known.is_keyed(name := LimitName(queue.namespace, each))]
        if not keyed:
            self._listed.pop(queue, None)
            return _Listed(news, (), of_queue, of_queue)
        limits = tuple(self._made(name) for name in keyed)
        is_same = found is not None and found.of_queue is of_queue and found.limits == limits
        self._listed[queue] = _Listed(
            news, limits, of_queue, found.rules if found is not None and is_same else object()
        )
        return self._listed[queue]

    def _made(self, name: LimitName) -> _KeyedLimit:
        kept, found = self._known.limit(name), self._limits.get(name)
        assert kept is not None
        if found is None or found.kept is not kept:
            found = self._limits[name] = _KeyedLimit(name, kept, dict(kept.overrides))
        return found

    def _sharing(self, queue: QueueKey) -> Iterator[QueueKey]:
        """Queues whose deliveries count for limits of this one."""
        for each in self._of(queue).limits:
            yield from self._known.listed_by(each.name)

    def _less(self, namespace: str, limit_key: str) -> None:
        owner = namespace, limit_key
        for queue, told in list(self._waiting.get(owner, {}).items()):
            self._forget(owner, queue)
            told()

    def _forget(self, owner: tuple[str, str], queue: QueueKey) -> None:
        waiting = self._waiting[owner]
        del waiting[queue]
        self._hands.unwatch(queue, owner[1])
        if not waiting:
            del self._waiting[owner]
