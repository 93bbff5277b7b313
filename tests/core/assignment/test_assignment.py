"""Which task a slot gets and which slot a task gets: consequences of the score, and all decisions at random."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from timerd.core.assignment import Choice, Contest, Pools, order_key, rarity_ms
from timerd.core.taken import LAST, QueueKey
from timerd.core.urgency import Urgency
from timerd.model.task import MAX_ON_DEMAND_MS, PRIORITY_MS

PDF, EXCEL, SCAN = (QueueKey("n", name) for name in ("pdf", "excel", "scan"))
DECISIONS = 13_191


def pools_of(*declared: tuple[int, Iterable[QueueKey], int]) -> Pools:
    """(worker, queues, slots) each, all slots free."""
    pools = Pools()
    for worker, queues, slots in declared:
        pools.join(worker, "p", queues, slots)
        pools.add(worker, "p", slots)
    return pools


def order_of_firing(position_ms: int, priority: int) -> int:
    """What a queue says of its first task."""
    return Urgency(priority).order(position_ms, position_ms)


def first_of(pools: Pools, heads: Iterable[tuple[QueueKey, int]]) -> QueueKey:
    contest = Contest(pools)
    for queue, key in heads:
        contest.enter(queue, key)
    choice = contest.next()
    assert choice is not None
    return choice.queue


@pytest.mark.parametrize(("waited_ms", "next_one"), [(319_999, EXCEL), (320_000, PDF)])
def test_a_task_of_no_priority_passes_fresh_ones_of_priority_5_after_320_seconds(
    waited_ms: int, next_one: QueueKey
) -> None:
    pools = pools_of((1, [PDF, EXCEL], 2))
    pools.take(EXCEL, 1)
    now_ms = 1_800_000_000_000
    heads = [(PDF, order_of_firing(now_ms - waited_ms, 0)), (EXCEL, order_of_firing(now_ms, 5))]
    assert first_of(pools, heads) == next_one


@pytest.mark.parametrize(("waited_ms", "next_one"), [(255_999, EXCEL), (256_000, PDF)])
def test_a_task_that_waits_in_line_passes_a_fresh_one_on_demand_after_256_seconds(
    waited_ms: int, next_one: QueueKey
) -> None:
    pools = pools_of((1, [PDF, EXCEL], 2))
    pools.take(EXCEL, 1)
    now_ms = 1_800_000_000_000
    on_demand = Urgency(0, is_on_demand=True).order(now_ms, now_ms)
    assert first_of(pools, [(PDF, order_of_firing(now_ms - waited_ms, 0)), (EXCEL, on_demand)]) == next_one


def test_under_twice_what_can_be_done_on_demand_nothing_waits_in_line_for_ever() -> None:
    """Rule A7. Two tasks on demand come a second, each worth something for so long, and one can be done: what waits in
    line is passed for 256 s and three times as long, and the 31.25 s of a rare type."""
    useful_ms, start_ms = MAX_ON_DEMAND_MS, 1_800_000_000_000
    pools = pools_of((1, [PDF, EXCEL], 1), (2, [PDF], 999))
    pools.take(PDF, 999)
    on_demand, now_ms, passed = deque[int](), start_ms, 0
    while True:
        now_ms += 1_000
        on_demand += [now_ms, now_ms]
        while on_demand[0] <= now_ms - useful_ms:
            on_demand.popleft()
        first = Urgency(0, is_on_demand=True).order(on_demand[0], now_ms)
        if first_of(pools, [(PDF, start_ms), (EXCEL, first)]) == PDF:
            break
        on_demand.popleft()
        passed += 1
    waited_ms = now_ms - start_ms
    assert useful_ms < waited_ms <= 256_000 + 3 * useful_ms + 31_250
    assert passed > 600


def test_a_rare_type_is_ahead_by_500_points_divided_by_its_slots() -> None:
    assert [rarity_ms(slots) * 16 // 1000 for slots in (1, 2, 4, 8)] == [500, 250, 125, 62]


def test_by_31_seconds_of_waiting_a_type_that_one_slot_can_run_passes_one_that_many_can() -> None:
    """The busy slots count, too: a send re-orders nothing."""
    pools = pools_of((1, [PDF, EXCEL], 1), (2, [PDF], 9))
    pools.take(PDF, 9)
    assert (pools.declared(PDF), pools.declared(EXCEL), pools.free(PDF)) == (10, 1, 1)
    assert first_of(pools, [(PDF, 0), (EXCEL, 31_250 - 3_125 - 1)]) == EXCEL
    assert first_of(pools, [(PDF, 0), (EXCEL, 31_250 - 3_125 + 1)]) == PDF
    assert order_key(0, 5, 10) == -5 * PRIORITY_MS - 3_125


def test_a_freed_slot_concerns_its_own_types_and_nobody_elses() -> None:
    pools = pools_of((1, [PDF, EXCEL], 1), (2, [SCAN], 1))
    assert pools.freed() == {PDF, EXCEL, SCAN}
    pools.take(PDF, 1)
    pools.take(SCAN, 1)
    assert (pools.free_queues(), pools.freed()) == ([], set())
    pools.add(1, "p", 1)
    assert pools.freed() == {PDF, EXCEL}
    pools.check()


def test_a_task_takes_a_slot_of_the_worker_that_can_do_least_else() -> None:
    pools = pools_of((1, [PDF, EXCEL, SCAN], 1), (2, [PDF, EXCEL], 1), (3, [PDF], 1), (4, [PDF], 1))
    assert [pools.take(PDF, 1) for _ in range(4)] == [[(3, 1)], [(4, 1)], [(2, 1)], [(1, 1)]]


def test_of_workers_that_can_do_the_same_the_one_that_got_nothing_for_longest_is_next() -> None:
    pools = pools_of((1, [PDF], 2), (2, [PDF], 2), (3, [PDF], 2))
    assert pools.take(PDF, 4) == [(1, 2), (2, 1), (3, 1)]
    pools.add(1, "p", 2)
    assert pools.take(PDF, 3) == [(2, 1), (3, 1), (1, 1)]
    pools.check()


def test_what_a_worker_that_is_gone_says_frees_nothing() -> None:
    pools = pools_of((1, [PDF], 2), (2, [PDF, EXCEL], 1))
    pools.take(PDF, 1)
    pools.leave(1)
    pools.add(1, "p", 1)
    assert not pools.give_back(1, PDF, 1)
    assert (pools.free(PDF), pools.declared(PDF)) == (1, 1)
    pools.leave(2)
    assert not pools
    pools.check()


def test_a_pool_never_has_more_free_slots_than_it_has() -> None:
    pools = pools_of((1, [PDF, EXCEL], 3))
    pools.add(1, "p", 1_000)
    assert pools.free(EXCEL) == 3
    pools.check()


def test_a_slow_reader_gets_nothing_until_it_has_caught_up() -> None:
    pools = pools_of((1, [PDF], 2), (2, [PDF], 1))
    pools.block(1)
    pools.add(1, "p", 1)
    assert (pools.take(PDF, 1), pools.free(PDF), pools.declared(PDF)) == ([(2, 1)], 0, 3)
    pools.freed()
    pools.check()
    pools.unblock(1)
    assert (pools.free(PDF), pools.freed()) == (2, {PDF})
    pools.check()


def test_a_worker_that_stops_takes_nothing_unless_it_says_so_again() -> None:
    pools = pools_of((1, [PDF], 2))
    pools.void(1)
    assert (pools.free(PDF), pools.declared(PDF)) == (0, 2)
    pools.add(1, "p", 1)
    assert pools.take(PDF, 1) == [(1, 1)]


def test_one_queue_that_has_something_alone_is_sent_in_one_go() -> None:
    contest = Contest(pools_of((1, [PDF, EXCEL], 8)))
    contest.enter(PDF, 0)
    assert contest.next() == Choice(PDF, 8, LAST)
    assert contest.next() is None


def test_several_are_chosen_together_as_far_as_one_queue_is_ahead() -> None:
    pools = pools_of((1, [PDF, EXCEL], 8))
    contest = Contest(pools)
    contest.enter(PDF, 100)
    contest.enter(EXCEL, 200)
    assert contest.next() == Choice(PDF, 8, 199), "of equal ones the other queue is next"
    pools.take(PDF, 3)
    contest.enter(PDF, 200)
    choice = contest.next()
    assert choice is not None
    assert (choice.queue, choice.tasks) == (EXCEL, 5)


# -- all decisions ----------------------------------------------------------------------------------------------------


@dataclass
class Task:
    queue: QueueKey
    position_ms: int
    priority: int
    is_on_demand: bool

    def order(self, now_ms: int) -> int:
        return Urgency(self.priority, self.is_on_demand).order(self.position_ms, now_ms)


@dataclass
class Everything:
    """Knows all tasks and slots, and scores each task at each instant."""

    waiting: list[Task] = field(default_factory=list)
    # Worker -> its types, slots, free ones, and when it got its last task.
    types: dict[int, frozenset[QueueKey]] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)
    free: dict[int, int] = field(default_factory=dict)

    def declared(self, queue: QueueKey) -> int:
        return sum(self.slots[worker] for worker, types in self.types.items() if queue in types)

    def score(self, task: Task, now_ms: int) -> float:
        age_s = (now_ms - task.position_ms) / 1000
        queued = 1024 * task.priority + 16 * age_s + 500 / self.declared(task.queue)
        return queued + (4096 + 32 * age_s if task.is_on_demand else 0)

    def runnable(self) -> list[Task]:
        able = {queue for worker, types in self.types.items() if self.free[worker] for queue in types}
        return [task for task in self.waiting if task.queue in able]

    def best(self, now_ms: int) -> float:
        return max(self.score(task, now_ms) for task in self.runnable())


def test_13_191_decisions_are_those_of_scoring_everything() -> None:
    chance = random.Random(37)
    queues = [QueueKey("n", f"q{number}") for number in range(12)]
    world, pools, now_ms, decisions = Everything(), Pools(), 1_800_000_000_000, 0
    for worker in range(20):
        types = frozenset(chance.sample(queues, chance.randint(1, 4)))
        world.types[worker], world.slots[worker], world.free[worker] = types, chance.randint(1, 3), 0
        pools.join(worker, "p", types, world.slots[worker])
    served = set().union(*world.types.values())
    while decisions < DECISIONS:
        now_ms += chance.randint(1, 5_000)
        for _ in range(chance.randint(0, 6)):
            queue = chance.choice(sorted(served))
            waited_ms, is_on_demand = chance.randint(0, 400_000), chance.random() < 0.3
            world.waiting.append(Task(queue, now_ms - waited_ms, chance.randint(0, 9), is_on_demand))
        for worker in chance.sample(range(20), 3):
            if world.free[worker] < world.slots[worker]:
                world.free[worker] += 1
                pools.add(worker, "p", 1)
        decisions += decide_all(world, pools, now_ms)
    pools.check()


def decide_all(world: Everything, pools: Pools, now_ms: int) -> int:
    """Until no task has a slot. How many got one."""
    decisions = 0
    contest = Contest(pools)
    for queue in sorted({task.queue for task in world.waiting}):
        enter(contest, world, queue, now_ms)
    while (choice := contest.next()) is not None:
        assert choice.tasks == sum(world.free[w] for w, types in world.types.items() if choice.queue in types)
        sent = 0
        while sent < choice.tasks and (head := head_of(world, choice.queue, now_ms)) is not None:
            if head.order(now_ms) > choice.upto:
                break
            # What is rounded off the rarity is less than a millisecond of waiting.
            assert world.score(head, now_ms) >= world.best(now_ms) - 0.017
            [(worker, count)] = pools.take(choice.queue, 1)
            assert count == 1
            fits = {w: len(types) for w, types in world.types.items() if world.free[w] and choice.queue in types}
            assert fits[worker] == min(fits.values()), "a worker that can do fewer others is free"
            world.free[worker] -= 1
            world.waiting.remove(head)
            sent += 1
        assert sent, "who is chosen has something to send"
        decisions += sent
        enter(contest, world, choice.queue, now_ms)
    assert not world.runnable(), "a task waits beside a free slot"
    return decisions


def head_of(world: Everything, queue: QueueKey, now_ms: int) -> Task | None:
    mine = [task for task in world.waiting if task.queue == queue]
    return min(mine, key=lambda task: task.order(now_ms), default=None)


def enter(contest: Contest, world: Everything, queue: QueueKey, now_ms: int) -> None:
    if (head := head_of(world, queue, now_ms)) is not None:
        contest.enter(queue, head.order(now_ms))
