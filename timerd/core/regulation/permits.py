"""The permits of a limit that an instance has borrowed from the keeper (rules P2 to P4 of docs/understand/protocol.md).

A start uses a permit that is free, and the end of the delivery sets it free again: nobody is asked. What the keeper
knows of it are statements, each of all that there is. A grant answers one statement and counts only while that is the
latest one, so whatever is lost or late on the way, the keeper counts too many and never too few.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# What was not used for so long goes back.
UNUSED_MS = 2_000


class Hands(NamedTuple):
    """Deliveries that count for a limit and are with workers: `own` were sent from here, `adopted` come from another
    instance or from before a restart. `lease_ms`: the longest lease of a worker."""

    own: int
    adopted: int
    lease_ms: int


class Stated(NamedTuple):
    """What an instance has of a limit: `permits`, free ones and those in hand. `moved`: how many of its deliveries
    another instance has got so far. `round`: the last one that it has heard of. `want`: how many more it could use."""

    seq: int
    round: int
    permits: int
    moved: int
    lease_ms: int
    want: int


class Grant(NamedTuple):
    """`permits` more. `most`: what is its share of the limit now. `lease_ms`: what every later keeper would wait for,
    so nothing is sent to a worker with a longer lease."""

    permits: int
    most: float
    round: int
    lease_ms: int


class BorrowedPermits:
    """Of one limit at one instance. `token`: of the latest keeper that it has stated to."""

    def __init__(self) -> None:
        self.token = 0
        self.wants = False
        self._seq = self._round = self._permits = self._moved = self._lease_ms = 0
        self._most = math.inf
        # What it had by its latest statement, and by the latest that was answered.
        self._has = self._confirmed = 0
        # The least that was free since then.
        self._least_free, self._since_ms = math.inf, -math.inf

    def is_used(self, hands: Hands) -> bool:
        """Whether there is something that the keeper should hear of."""
        return self.wants or self._permits > 0 or hands.own + hands.adopted > 0 or self._confirmed > 0

    def free(self, hands: Hands) -> int:
        """How many may start now."""
        if hands.lease_ms > self._lease_ms:
            return 0
        return max(0, int(min(self._permits, self._most)) - hands.own)

    def used(self, hands: Hands) -> None:
        """Something was sent."""
        self._least_free = min(self._least_free, self.free(hands))

    def moved(self, deliveries: int) -> None:
        """Another instance has them from now on: their permits are not free here."""
        self._permits = max(0, self._permits - deliveries)
        self._moved += deliveries

    def state(self, token: int, hands: Hands, now_ms: float, heard_round: int = 0) -> Stated | None:
        """To the keeper with this token; nothing of an earlier one counts from now on. None: that is an earlier one."""
        if token < self.token:
            return None
        if token > self.token:
            self.token, self._round, self._most, self._lease_ms = token, 0, math.inf, 0
        self._round = max(self._round, heard_round)
        self._let_go(hands, now_ms)
        self._seq += 1
        self._has = max(self._permits, hands.own) + hands.adopted
        want = max(1, self._permits) if self.wants else 0
        return Stated(self._seq, self._round, self._has, self._moved, hands.lease_ms, want)

    def granted(self, seq: int, token: int, grant: Grant) -> bool:
        """In answer to that statement. Whether more may start than before."""
        if not self._counts(seq, token):
            return False
        self._permits += grant.permits
        self._confirmed = self._has + grant.permits
        self._most, self._lease_ms = grant.most, grant.lease_ms
        self._round = max(self._round, grant.round)
        self.wants = self.wants and not grant.permits
        return grant.permits > 0

    def leave(self) -> None:
        """Nothing more is sent: what is free goes back with the next statement."""
        self.wants, self._most = False, 0

    def lapse(self) -> None:
        """The lease was lost: others may have got what was here, and what is on its way counts no more."""
        self._seq += 1
        self._permits = self._moved = self._round = self._lease_ms = 0

    def _counts(self, seq: int, token: int) -> bool:
        return seq == self._seq and token == self.token

    def _let_go(self, hands: Hands, now_ms: float) -> None:
        """What is above its share, and what was free all the time. Before it is stated: it is not used any more."""
        keeps = min(self._permits, max(self._most, hands.own))
        if now_ms >= self._since_ms + UNUSED_MS:
            free = max(0, keeps - hands.own)
            keeps -= min(free, self._least_free)
            self._least_free, self._since_ms = free, now_ms
        self._permits = int(keeps)
