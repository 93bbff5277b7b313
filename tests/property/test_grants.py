"""Homes and peers over ordered streams that break at any moment: no unit of credit is ever in two places, none is
lost."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from timerd.core.dispatch.grants import Grants, Loan, Want
from timerd.core.taken import QueueKey

QUEUES = (QueueKey("default", "a"), QueueKey("default", "b"))
LOAN_MS = 100
picks = st.integers(0, 1 << 16)
few = st.integers(1, 9)


class Stream:
    """One stream to a peer: what is under way, and what the peer may send."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.to_peer: deque[tuple[str, Loan, int]] = deque()
        self.to_home: deque[tuple[str, Loan, int]] = deque()
        self.credit: Counter[Loan] = Counter()


class GrantsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.grants = Grants(LOAN_MS)
        self.now_ms = 0
        self.own: Counter[tuple[int, QueueKey]] = Counter()
        self.given: Counter[tuple[int, QueueKey]] = Counter()
        self.came: Counter[tuple[int, QueueKey]] = Counter()
        self.workers = {1, 2}
        self.next_worker = 3
        self.streams = [Stream(1), Stream(2)]
        self.next_stream = 3

    def stream(self, pick: int) -> Stream:
        return self.streams[pick % len(self.streams)]

    @rule(pick=picks, tasks=few)
    def a_worker_gives_credit(self, pick: int, tasks: int) -> None:
        place = sorted(self.workers)[pick % len(self.workers)], QUEUES[pick // 7 % 2]
        self.own[place] += tasks
        self.given[place] += tasks

    @rule(pick=picks, tasks=st.integers(0, 20))
    def a_peer_wants(self, pick: int, tasks: int) -> None:
        self.grants.want(self.stream(pick).number, QUEUES[pick // 7 % 2], Want(tasks, pick))

    @rule(pick=picks, own_key=st.none() | picks)
    def credit_is_lent(self, pick: int, own_key: int | None) -> None:
        queue = QUEUES[pick % 2]
        credit = sum(n for (_, q), n in self.own.items() if q == queue)
        shares = self.grants.shares(queue, credit, own_key)
        assert sum(shares.values()) <= credit
        if own_key is None and shares:
            wanted = any(queue == q for q in self.grants.wanted())
            assert wanted
        for stream in self.streams:
            for worker in sorted(self.workers):
                lent = min(shares.get(stream.number, 0), self.own[worker, queue])
                if lent:
                    shares[stream.number] -= lent
                    self.own[worker, queue] -= lent
                    loan = Loan(stream.number, worker, queue)
                    self.grants.lend(loan, lent, self.now_ms)
                    stream.to_peer.append(("grant", loan, lent))

    @rule(pick=picks)
    def the_peer_hears(self, pick: int) -> None:
        stream = self.stream(pick)
        if stream.to_peer:
            kind, loan, tasks = stream.to_peer.popleft()
            if kind == "grant":
                stream.credit[loan] += tasks
            else:
                stream.to_home.append(("return", loan, stream.credit.pop(loan, 0)))

    @rule(pick=picks, tasks=few, kind=st.sampled_from(("deliver", "return")))
    def the_peer_sends(self, pick: int, tasks: int, kind: str) -> None:
        stream = self.stream(pick)
        loans = sorted(+stream.credit)
        if loans:
            loan = loans[pick // 3 % len(loans)]
            tasks = min(tasks, stream.credit[loan])
            stream.credit[loan] -= tasks
            stream.to_home.append((kind, loan, tasks))

    @rule(pick=picks)
    def the_home_hears(self, pick: int) -> None:
        stream = self.stream(pick)
        if not stream.to_home:
            return
        kind, loan, tasks = stream.to_home.popleft()
        place = loan.worker, loan.queue
        if kind == "return":
            self.own[place] += self.grants.returned(loan, tasks, self.now_ms)
        else:
            self.grants.used(loan, tasks)
            if loan.worker in self.workers:
                self.came[place] += tasks

    @rule(by_ms=st.integers(0, 150))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms
        wake_ms = self.grants.next_wake_ms()
        loans = self.grants.overdue(self.now_ms)
        assert bool(loans) == (wake_ms is not None and wake_ms <= self.now_ms)
        self.call(loans)

    @rule(pick=picks)
    def a_slow_worker_is_called_in(self, pick: int) -> None:
        self.call(self.grants.call_in(sorted(self.workers)[pick % len(self.workers)]))

    def call(self, loans: list[Loan]) -> None:
        for loan in loans:
            next(s for s in self.streams if s.number == loan.peer).to_peer.append(("revoke", loan, 0))

    @rule(pick=picks)
    def a_stream_breaks(self, pick: int) -> None:
        broken = self.stream(pick)
        for loan, tasks in self.grants.peer_gone(broken.number):
            self.own[loan.worker, loan.queue] += tasks
        self.streams[self.streams.index(broken)] = Stream(self.next_stream)
        self.next_stream += 1

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def a_worker_goes_and_another_comes(self, pick: int) -> None:
        worker = sorted(self.workers)[pick % len(self.workers)]
        self.grants.worker_gone(worker)
        self.workers.remove(worker)
        for queue in QUEUES:
            self.own.pop((worker, queue), None)
            self.given.pop((worker, queue), None)
        self.workers.add(self.next_worker)
        self.next_worker += 1

    @invariant()
    def every_unit_is_in_one_place(self) -> None:
        self.grants.check()
        for worker in self.workers:
            for queue in QUEUES:
                place = worker, queue
                assert self.own[place] + self.grants.lent(*place) + self.came[place] == self.given[place]
                assert self.grants.lent(*place) == sum(self.remote(stream, place) for stream in self.streams)

    def remote(self, stream: Stream, place: tuple[int, QueueKey]) -> int:
        loan = Loan(stream.number, *place)
        granted = sum(n for kind, each, n in stream.to_peer if each == loan and kind == "grant")
        coming = sum(n for _, each, n in stream.to_home if each == loan)
        return granted + stream.credit[loan] + coming


TestGrants = GrantsModel.TestCase
TestGrants.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
