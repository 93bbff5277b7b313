"""Whatever is sent and however it ends: a reader is told of it, or it is counted; and nothing is told twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.deliveries import NOW_MS, SECRET, taken_of
from timerd.core.dispatch import Settlement, Tail, TailKind, TailLine, TailReader
from timerd.core.dispatch import tail as tail_module
from timerd.core.taken import AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.settle import Outcome
from timerd.model.task import Template

QUEUES = (QueueKey("default", "mails"), QueueKey("default", "calls"), QueueKey("other", "mails"))
ENDS = (TailKind.ACKED, TailKind.FAILED, TailKind.DEAD, TailKind.EXPIRED, TailKind.GIVEN_BACK)


def settlement_of(taken: Taken, kind: TailKind, at_ms: int, *, together: bool) -> Settlement:
    """All rows end alike."""
    where, keys = taken.partition, [taken.key(row) for row in range(len(taken))]
    failed = [Again(where, key, at_ms + 10, at_ms, "no") for key in keys]
    if kind is TailKind.ACKED and together:
        return Settlement(acked=[AckedRows(where, taken.positions, taken.digests, taken.versions)])
    if kind is TailKind.ACKED:
        return Settlement(ended=[Ended(where, key, Outcome.ACKED) for key in keys])
    if kind is TailKind.DEAD:
        return Settlement(dead=[Ended(where, key, Outcome.DEAD) for key in keys])
    if kind is TailKind.FAILED:
        return Settlement(again=failed)
    return Settlement(expired=failed) if kind is TailKind.EXPIRED else Settlement(back=failed)


@dataclass
class Looker:
    """A reader, what it wants, and what it was told."""

    namespace: str
    queue: str
    per_second: int
    lines: list[TailLine] = field(default_factory=list)
    left_out: int = 0
    sent: int = 0

    def __post_init__(self) -> None:
        self.reader = TailReader(self.namespace, self.queue, self.per_second, lambda: None)

    def take(self) -> None:
        lines, left_out = self.reader.take()
        self.lines += lines
        self.left_out += left_out

    def of(self, *kinds: TailKind) -> set[str]:
        return {str(line.task_id) for line in self.lines if line.kind in kinds}


@given(
    lookers=st.lists(
        st.tuples(st.sampled_from(("default", "other")), st.sampled_from(("", "mails")), st.integers(1, 12)),
        min_size=1,
        max_size=3,
    ),
    steps=st.lists(
        st.tuples(
            st.sampled_from(QUEUES),
            st.integers(1, 9),
            st.sampled_from((*ENDS, None)),
            st.integers(0, 700),
            st.booleans(),
            st.booleans(),
        ),
        max_size=12,
    ),
)
def test_each_delivery_is_told_or_counted_and_each_end_once(
    lookers: list[tuple[str, str, int]], steps: list[tuple[QueueKey, int, TailKind | None, int, bool, bool]]
) -> None:
    tail, present = Tail(SECRET), [Looker(*each) for each in lookers]
    for looker in present:
        tail.join(looker.reader)
    now_ms, ended = NOW_MS, set()
    for number, (queue, rows, kind, later_ms, together, takes) in enumerate(steps):
        taken = taken_of(range(rows), Template(*queue), prefix=b"message-%04d" % number, position_ms=now_ms - 3)
        tail.sent(queue, taken, "w", now_ms)
        for looker in present:
            looker.sent += rows * looker.reader.reads(queue)
        if kind is not None:
            tail.settled(settlement_of(taken, kind, now_ms, together=together), now_ms + 1)
            # What is said of it a second time was said.
            tail.settled(settlement_of(taken, kind, now_ms, together=together), now_ms + 2)
            ended |= set(taken.digests)
        if takes:
            present[0].take()
        now_ms += later_ms
    for looker in present:
        looker.take()
        sent = [line for line in looker.lines if line.kind is TailKind.SENT]
        assert len(sent) + looker.left_out == looker.sent
        assert len(sent) == len(looker.of(TailKind.SENT))
        told = {line.task_id.digest for line in sent}
        over = [line.task_id.digest for line in looker.lines if line.kind is not TailKind.SENT]
        assert sorted(over) == sorted(told & ended)
        assert all(line.sent_ms - line.due_ms == 3 for line in looker.lines)
        seconds = [line.at_ms // 1000 for line in sent]
        assert max(map(seconds.count, seconds), default=0) <= looker.per_second


def test_one_who_does_not_read_costs_so_many_lines_and_no_more() -> None:
    looker, tail = Looker("default", "", 10_000), Tail(SECRET)
    tail.join(looker.reader)
    for number in range(3):
        tail.sent(QUEUES[0], taken_of(range(700), prefix=b"message-%04d" % number), "w", NOW_MS)
    looker.take()
    assert (len(looker.lines), looker.left_out) == (tail_module.MOST_WAITING, 2_100 - tail_module.MOST_WAITING)
    tail.sent(QUEUES[0], taken_of(range(2), prefix=b"message-last"), "w", NOW_MS)
    looker.take()
    assert looker.lines[-1].kind is TailKind.SENT
    assert looker.left_out == 2_100 - tail_module.MOST_WAITING


def test_of_deliveries_that_do_not_end_only_so_many_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "MOST_FOLLOWED", 5)
    looker, tail = Looker("default", "", 100), Tail(SECRET)
    tail.join(looker.reader)
    taken = taken_of(range(8))
    tail.sent(QUEUES[0], taken, "w", NOW_MS)
    tail.settled(settlement_of(taken, TailKind.ACKED, NOW_MS, together=True), NOW_MS)
    looker.take()
    acked = [line.task_id.digest for line in looker.lines if line.kind is TailKind.ACKED]
    assert acked == list(taken.digests[3:])


def test_what_is_said_of_an_earlier_attempt_ends_no_later_one() -> None:
    looker, tail = Looker("default", "", 100), Tail(SECRET)
    tail.join(looker.reader)
    first, second = taken_of([1]), taken_of([1], version=1)
    tail.sent(QUEUES[0], first, "w", NOW_MS)
    tail.sent(QUEUES[0], second, "w", NOW_MS + 5)
    tail.settled(settlement_of(first, TailKind.FAILED, NOW_MS + 5, together=False), NOW_MS + 6)
    tail.settled(settlement_of(second, TailKind.ACKED, NOW_MS + 7, together=False), NOW_MS + 8)
    looker.take()
    assert [(line.kind, line.attempt) for line in looker.lines] == [
        (TailKind.SENT, 1),
        (TailKind.SENT, 2),
        (TailKind.ACKED, 2),
    ]
