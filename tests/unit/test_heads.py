"""When the first row of all comes is known without a look at each queue."""

from __future__ import annotations

from timerd.core.due_queue.heads import SLACK, Heads
from timerd.core.taken import QueueKey


class Rows:
    """When each queue's first row comes, and how often that was asked."""

    def __init__(self) -> None:
        self.heads = Heads()
        self.first: dict[QueueKey, int] = {}
        self.asked = 0

    def add(self, name: str, at_ms: int) -> None:
        queue = QueueKey("default", name)
        self.first[queue] = min(at_ms, self.first.get(queue, at_ms))
        self.heads.at(queue, at_ms)

    def next_ms(self, queue: QueueKey) -> int | None:
        self.asked += 1
        return self.first.get(queue)

    def first_ms(self) -> int | None:
        return self.heads.first_ms(self.next_ms)


def test_of_many_queues_one_is_asked() -> None:
    rows = Rows()
    for n in range(2_000):
        rows.add(f"{n}", 5_000 - n)
    assert [rows.first_ms() for _ in range(10)] == [3_001] * 10
    assert rows.asked == 10


def test_what_was_taken_is_found_out_when_it_comes_first() -> None:
    rows = Rows()
    for n in range(100):
        rows.add(f"{n}", n)
    for n in range(98):
        del rows.first[QueueKey("default", f"{n}")]
    rows.first[QueueKey("default", "98")] = 500
    assert rows.first_ms() == 99
    assert rows.asked == 100
    del rows.first[QueueKey("default", "99")]
    assert rows.first_ms() == 500
    rows.add("0", 7)
    assert rows.first_ms() == 7
    rows.first.clear()
    assert rows.first_ms() is None


def test_a_queue_may_come_earlier_than_it_was_listed() -> None:
    rows = Rows()
    rows.add("mail", 50)
    rows.add("mail", 20)
    rows.add("mail", 90)
    assert rows.first_ms() == 20
    rows.first[QueueKey("default", "mail")] = 50
    assert rows.first_ms() == 50
    assert rows.first_ms() == 50


def test_a_queue_whose_tasks_are_due_soon_before_one_that_is_far_takes_no_more_room() -> None:
    rows = Rows()
    for soon_ms in range(1_000):
        rows.add("mail", soon_ms)
        assert rows.first_ms() == soon_ms
        rows.first[QueueKey("default", "mail")] = 300_000
        assert rows.first_ms() == 300_000
    assert len(rows.heads._heap) <= 2 + SLACK
