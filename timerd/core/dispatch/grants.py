"""Whose credit is lent to which instance (protocol section 6): the book of a home.

The home alone owns the credit of its workers. What it lends is taken out of its own count first, and comes back exactly
once: as tasks that were delivered, as a return that the peer sent behind its last delivery, or in one piece when the
stream to the peer breaks, for what has not come by then never comes. So no worker ever holds more than it asked for,
whatever is lost on the way. A loan is called in after its time, so that credit does not rest where nothing is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from timerd.core.taken import LAST, QueueKey

LOAN_MS = 2_000


class Loan(NamedTuple):
    """What one peer may send to one worker. `peer` is the number of one stream: the next one to the same instance has
    another."""

    peer: int
    worker: int
    queue: QueueKey


class Want(NamedTuple):
    """What a peer has due beyond the credit it has; `key` is the place of its first task in the queue's order."""

    tasks: int
    key: int


@dataclass(slots=True)
class _Lent:
    tasks: int
    until_ms: int


class Grants:
    def __init__(self, loan_ms: int = LOAN_MS) -> None:
        self._loan_ms = loan_ms
        self._wants: dict[QueueKey, dict[int, Want]] = {}
        # The loan that ends first comes first, for all last alike; those that were called in stand apart.
        self._lent: dict[Loan, _Lent] = {}
        self._called: dict[Loan, _Lent] = {}
        # How many loans a peer has of a queue.
        self._loans: Counter[tuple[int, QueueKey]] = Counter()

    # -- who wants credit -----------------------------------------------------------------------------------------

    def want(self, peer: int, queue: QueueKey, want: Want) -> None:
        """Replaces what the peer wanted before; 0 tasks: nothing any more."""
        wants = self._wants.setdefault(queue, {})
        wants.pop(peer, None)
        if want.tasks > 0:
            wants[peer] = want
        elif not wants:
            del self._wants[queue]

    def wanted(self) -> list[QueueKey]:
        return list(self._wants)

    def first_wants(self, queue: QueueKey) -> list[tuple[int, Want]]:
        """(peer, what it wants) of those to which nothing of the queue is lent."""
        return [(peer, want) for peer, want in self._wants.get(queue, {}).items() if not self._loans[peer, queue]]

    def wants(self, queue: QueueKey) -> list[tuple[int, Want]]:
        """(peer, what it wants), the first task first."""
        return sorted(self._wants.get(queue, {}).items(), key=lambda each: each[1].key)

    def pass_over(self, peer: int, queue: QueueKey) -> None:
        """It comes after all others until it says anew what it wants: it had something, and did not use it."""
        if (want := self._wants.get(queue, {}).get(peer)) is not None:
            self.want(peer, queue, want._replace(key=LAST))

    def shares(self, queue: QueueKey, credit: int, own_key: int | None) -> dict[int, int]:
        """What each peer is to get of `credit`. All who have something due get alike, this instance (`own_key`: the
        place of its first due task) among them; where that is less than one each, the most urgent ones."""
        wants = self._wants.get(queue, {})
        wanting: list[tuple[int, int | None]] = [(want.key, peer) for peer, want in wants.items()]
        if own_key is not None:
            wanting.append((own_key, None))
        wanting.sort(key=lambda each: each[0])
        shares: dict[int, int] = {}
        while credit > 0 and wanting:
            even = max(1, credit // len(wanting))
            wanting, credit = self._hand_out(wants, wanting, even, credit, shares)
        return shares

    @staticmethod
    def _hand_out(
        wants: Mapping[int, Want],
        wanting: list[tuple[int, int | None]],
        even: int,
        credit: int,
        shares: dict[int, int],
    ) -> tuple[list[tuple[int, int | None]], int]:
        """One round, the most urgent first. Returns who wants more, and what is left."""
        rest: list[tuple[int, int | None]] = []
        for key, peer in wanting:
            if peer is None:
                credit -= min(even, credit)
                rest.append((key, peer))
                continue
            missing = wants[peer].tasks - shares.get(peer, 0)
            given = min(even, credit, missing)
            if given:
                shares[peer] = shares.get(peer, 0) + given
            credit -= given
            if given < missing:
                rest.append((key, peer))
        return rest, credit

    # -- what is lent ---------------------------------------------------------------------------------------------

    def lend(self, loan: Loan, tasks: int, now_ms: int) -> None:
        """`tasks` > 0 of the worker's credit, which no longer count here, are the peer's."""
        lent = self._find(loan)
        if lent is None:
            self._lent[loan] = _Lent(tasks, now_ms + self._loan_ms)
            self._loans[loan.peer, loan.queue] += 1
        else:
            lent.tasks += tasks
        wants = self._wants.get(loan.queue, {})
        if (want := wants.get(loan.peer)) is not None:
            self.want(loan.peer, loan.queue, want._replace(tasks=want.tasks - tasks))

    def used(self, loan: Loan, tasks: int) -> None:
        """So many came."""
        self._less(loan, tasks)

    def returned(self, loan: Loan, tasks: int, now_ms: int) -> int:
        """The peer will not use so many; returns how many of them are the worker's again. What was lent after it was
        called in begins its own time."""
        back = self._less(loan, tasks)
        lent = self._called.pop(loan, None)
        if lent is not None:
            self._lent[loan] = _Lent(lent.tasks, now_ms + self._loan_ms)
        return back

    def lent(self, worker: int, queue: QueueKey) -> int:
        return sum(lent.tasks for loan, lent in self._all() if loan[1:] == (worker, queue))

    def overdue(self, now_ms: int) -> list[Loan]:
        """To be called in; each is named once."""
        return self._call_in(takewhile(lambda loan: self._lent[loan].until_ms <= now_ms, self._lent))

    def call_in(self, worker: int | None = None) -> list[Loan]:
        """All that is lent, or all of one worker, to be called in."""
        return self._call_in(loan for loan in self._lent if worker in (None, loan.worker))

    def next_wake_ms(self) -> int | None:
        """When to ask for `overdue`."""
        return next((lent.until_ms for lent in self._lent.values()), None)

    def worker_gone(self, worker: int) -> None:
        """Its credit is void, wherever it is."""
        for loan, _ in self._all():
            if loan.worker == worker:
                self._forget(loan)

    def peer_gone(self, peer: int) -> list[tuple[Loan, int]]:
        """The stream broke. What was lent to it is the workers' again."""
        for queue in [queue for queue, wants in self._wants.items() if peer in wants]:
            self.want(peer, queue, Want(0, 0))
        back = [(loan, lent.tasks) for loan, lent in self._all() if loan.peer == peer]
        for loan, _ in back:
            self._forget(loan)
        return back

    def check(self) -> None:
        """Invariants, for tests."""
        assert not self._lent.keys() & self._called.keys()
        assert all(lent.tasks > 0 for _, lent in self._all())
        assert self._loans == Counter((loan.peer, loan.queue) for loan, _ in self._all())
        times = [lent.until_ms for lent in self._lent.values()]
        assert times == sorted(times)
        assert all(wants and all(w.tasks > 0 for w in wants.values()) for wants in self._wants.values())

    def _all(self) -> list[tuple[Loan, _Lent]]:
        return [*self._lent.items(), *self._called.items()]

    def _find(self, loan: Loan) -> _Lent | None:
        return self._lent.get(loan) or self._called.get(loan)

    def _forget(self, loan: Loan) -> None:
        self._lent.pop(loan, None)
        self._called.pop(loan, None)
        self._loans[loan.peer, loan.queue] -= 1
        if not self._loans[loan.peer, loan.queue]:
            del self._loans[loan.peer, loan.queue]

    def _call_in(self, loans: Iterable[Loan]) -> list[Loan]:
        called = list(loans)
        for loan in called:
            self._called[loan] = self._lent.pop(loan)
        return called

    def _less(self, loan: Loan, tasks: int) -> int:
        """A peer that speaks of more than it has is taken at what it has."""
        lent = self._find(loan)
        if lent is None:
            return 0
        less = min(tasks, lent.tasks)
        lent.tasks -= less
        if not lent.tasks:
            self._forget(loan)
        return less
