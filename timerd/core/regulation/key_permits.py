"""The permits of limit keys that an instance has borrowed from the keeper of their home (rules L1 to L3 of
docs/understand/protocol.md, model keyed.pml).

As with the permits of one limit (permits.py) a start uses one that is free, and the end of the delivery sets it free
again. But a home has many keys, and a statement says only those of which something has changed. What has changed is
found by comparing what there is with what the keeper has answered, so nothing that happens to a key can be forgotten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from timerd.core.regulation.permits import UNUSED_MS
from timerd.model.keeping import LimitedKey

# All keys of a home are looked through so often.
LOOK_MS = 1_000


class KeyStated(NamedTuple):
    """Of one key: `permits`, free ones and those in hand. `moved`: how many of its deliveries another instance has got,
    as far as no keeper has answered that it knows. `want`: how many more it could use."""

    permits: int
    moved: int
    want: int


class KeysStated(NamedTuple):
    """What an instance has of a home. `is_whole`: it says all keys of which there is something; else the others are as
    before. `round`: the last one of the keeper in which it has looked through all that its workers have."""

    seq: int
    round: int
    lease_ms: int
    is_whole: bool
    keys: Mapping[LimitedKey, KeyStated]


class KeysGrant(NamedTuple):
    """`permits`: so many more, of some keys. `most`: what is its share now, of keys of which all want more than there
    is. `round` and `lease_ms` as of a grant of one limit."""

    permits: Mapping[LimitedKey, int]
    most: Mapping[LimitedKey, int]
    round: int
    lease_ms: int


class KeyInHand(NamedTuple):
    """Deliveries of a key that are with workers: `own` were sent from here, `adopted` come from another instance, or
    from before a restart."""

    own: int
    adopted: int


@dataclass(slots=True)
class _Key:
    """`moved`: since a keeper has answered. `confirmed`: what there is of it by the latest answer. `least_free`: since
    unused permits were looked for."""

    permits: int = 0
    wants: bool = False
    moved: int = 0
    confirmed: int = 0
    least_free: float = math.inf


class BorrowedKeys:
    """Of one home at one instance. `hands`: what workers have of a key. `token`: of the latest keeper that it has
    stated to."""

    def __init__(self, hands: Callable[[LimitedKey], KeyInHand]) -> None:
        self.token = 0
        self._hands = hands
        self._keys: dict[LimitedKey, _Key] = {}
        # L2: they are said until a statement is answered that says them as they are.
        self._news: set[LimitedKey] = set()
        self._most: Mapping[LimitedKey, int] = {}
        # L1: the keeper has answered a whole statement.
        self._is_told = self._is_leaving = False
        self._seq = self._round = self._looked_round = self._stated_round = self._lease_ms = 0
        self._said: Mapping[LimitedKey, KeyStated] = {}
        self._looked_ms = self._since_ms = -math.inf

    @property
    def is_used(self) -> bool:
        """Whether there is something that the keeper should hear of."""
        return bool(self._keys)

    def is_due(self, now_ms: float) -> bool:
        """Whether there is something new, or others want what is here, or it is time to look."""
        is_new = bool(self._news) or not self._is_told or self._stated_round < self._round
        return is_new or bool(self._most) or now_ms >= self._looked_ms + LOOK_MS

    def free(self, key: LimitedKey, lease_ms: int) -> int:
        """How many may start now, for a worker with such a lease."""
        each = self._keys.get(key)
        if each is None or self._is_leaving or lease_ms > self._lease_ms:
            return 0
        return max(0, int(min(each.permits, self._most.get(key, math.inf))) - self._hands(key).own)

    def used(self, key: LimitedKey, tasks: int, lease_ms: int) -> None:
        """So many are about to be sent."""
        if (each := self._keys.get(key)) is not None:
            each.least_free = min(each.least_free, max(0, self.free(key, lease_ms) - tasks))

    def want(self, key: LimitedKey) -> None:
        """Something is held back."""
        self._of(key).wants = True
        self._news.add(key)

    def moved(self, key: LimitedKey, deliveries: int) -> None:
        """Another instance has them from now on: their permits are not free here."""
        each = self._of(key)
        each.permits = max(0, each.permits - deliveries)
        each.moved += deliveries
        self._news.add(key)

    def met(self, key: LimitedKey) -> None:
        """Workers have deliveries of it, for which no permit was borrowed here."""
        self._of(key)
        self._news.add(key)

    def state(
        self, token: int, lease_ms: int, now_ms: float, heard_round: int = 0, *, is_known: bool = True
    ) -> KeysStated | None:
        """To the keeper with this token; nothing of an earlier one counts from now on. `is_known`: of all that workers
        have it is known what it is; else another statement is to answer the round. None: that is an earlier keeper."""
        if token < self.token:
            return None
        if token > self.token:
            self._begin(token)
        self._round = max(self._round, heard_round)
        if not self._is_told or self._round > self._looked_round or now_ms >= self._looked_ms + LOOK_MS:
            self._look(now_ms)
        if is_known:
            self._stated_round = self._round
        self._seq += 1
        is_whole = not self._is_told
        self._said = {key: self._stated(key) for key in (self._keys if is_whole else self._news)}
        return KeysStated(self._seq, self._stated_round, lease_ms, is_whole, self._said)

    def granted(self, seq: int, token: int, grant: KeysGrant) -> Collection[LimitedKey]:
        """In answer to that statement. The keys of which more may start than before."""
        if not self._counts(seq, token):
            return ()
        if not self._is_told:
            self._is_told = True
            for key in self._keys.keys() - self._said.keys():
                self._keys[key].confirmed = 0
        self._most, self._lease_ms, self._round = grant.most, grant.lease_ms, max(self._round, grant.round)
        for key, said in self._said.items():
            self._answered(key, said, grant.permits.get(key, 0))
        return grant.permits.keys()

    def refused(self, seq: int, token: int) -> None:
        """L1: the keeper does not know all that there is here."""
        if self._counts(seq, token):
            self._is_told = False

    def leave(self) -> None:
        """Nothing more is sent: what is free goes back with the next statement."""
        self._is_leaving = True
        self._looked_round = -1

    def lapse(self) -> None:
        """The lease was lost: others may have got what was here, and what is on its way counts no more."""
        self._seq += 1
        self._begin(self.token)
        for each in self._keys.values():
            each.permits = each.moved = each.confirmed = 0

    # -- inside ---------------------------------------------------------------------------------------------------

    def _of(self, key: LimitedKey) -> _Key:
        found = self._keys.get(key)
        if found is None:
            found = self._keys[key] = _Key()
        return found

    def _counts(self, seq: int, token: int) -> bool:
        return seq == self._seq and token == self.token

    def _begin(self, token: int) -> None:
        """With a keeper that has heard nothing."""
        self.token, self._most, self._is_told = token, {}, False
        self._round = self._looked_round = self._stated_round = self._lease_ms = 0

    def _has(self, key: LimitedKey, each: _Key) -> int:
        hands = self._hands(key)
        return max(each.permits, hands.own) + hands.adopted

    def _stated(self, key: LimitedKey) -> KeyStated:
        each = self._of(key)
        return KeyStated(self._has(key, each), each.moved, max(1, each.permits) if each.wants else 0)

    def _answered(self, key: LimitedKey, said: KeyStated, more: int) -> None:
        """A permit that has come is used for a while before it counts as unused."""
        each = self._of(key)
        each.permits += more
        each.moved -= said.moved
        each.confirmed = said.permits + more
        if more:
            each.wants, each.least_free = False, 0
        if not (each.wants or each.moved or self._has(key, each) != each.confirmed):
            self._news.discard(key)

    def _look(self, now_ms: float) -> None:
        """Through all keys: what is above its share, or was not used, goes back, before it is stated. What has changed
        is to be said, and that of which nothing is left is forgotten."""
        self._looked_ms, self._looked_round = now_ms, self._round
        is_over = now_ms >= self._since_ms + UNUSED_MS
        if is_over:
            self._since_ms = now_ms
        for key, each in list(self._keys.items()):
            own = self._hands(key).own
            self._let_go(key, each, own, is_over=is_over)
            has = self._has(key, each)
            if has != each.confirmed or each.wants or each.moved:
                self._news.add(key)
            elif not has and key not in self._news:
                del self._keys[key]

    def _let_go(self, key: LimitedKey, each: _Key, own: int, *, is_over: bool) -> None:
        most = 0 if self._is_leaving else self._most.get(key, math.inf)
        keeps = min(each.permits, max(most, own))
        if is_over:
            free = max(0, keeps - own)
            keeps -= min(free, each.least_free)
            each.least_free = free
        each.permits = int(keeps)
