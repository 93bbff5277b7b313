"""Mistakes in whose task a slot of a pool gets, and in how many there are."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DECISIONS = "tests/core/assignment/test_assignment.py::test_13_191_decisions_are_those_of_scoring_everything"
OWN_TYPES = "tests/core/assignment/test_assignment.py::test_a_freed_slot_concerns_its_own_types_and_nobody_elses"
NO_MORE = "tests/services/test_pools.py::test_queues_share_the_slots_of_a_pool_and_never_take_more"

MUTANTS = (
    Mutant(
        name="more-free-than-slots",
        guarantee="G23",
        file="timerd/core/assignment/pools.py",
        old="            self._set(pool, min(pool.slots, pool.free + slots))\n",
        new="            self._set(pool, pool.free + slots)\n",
        breaks="a worker that says too much is sent more than it has slots",
        tests=(NO_MORE, "tests/core/assignment/test_assignment.py::test_a_pool_never_has_more_free_slots_than_it_has"),
    ),
    Mutant(
        name="slot-of-each-queue",
        guarantee="G23",
        file="timerd/core/assignment/pools.py",
        old="            found.free -= 1\n",
        new="            found.free -= found is self._types[min(of.queues)]\n",
        breaks="a slot that is taken for one queue is still free for others",
        tests=(
            DECISIONS,
            "tests/core/assignment/test_assignment.py::test_a_freed_slot_concerns_its_own_types_and_nobody_elses",
        ),
    ),
    Mutant(
        name="rarity-of-free",
        guarantee="G23",
        file="timerd/core/assignment/pools.py",
        old="            found.free -= 1\n",
        new="            found.free -= 1\n            found.ahead_ms = rarity_ms(max(1, found.free))\n",
        breaks="each send changes the order of all that wait",
        tests=(
            DECISIONS,
            "tests/core/assignment/test_assignment.py"
            "::test_by_31_seconds_of_waiting_a_type_that_one_slot_can_run_passes_one_that_many_can",
        ),
    ),
    Mutant(
        name="versatile-first",
        guarantee="G23",
        file="timerd/core/assignment/pools.py",
        old="self.ready[min([size",
        new="self.ready[max([size",
        breaks="workers that can do everything are busy with what others could do",
        tests=(
            DECISIONS,
            "tests/core/assignment/test_assignment.py::test_a_task_takes_a_slot_of_the_worker_that_can_do_least_else",
            "tests/services/test_pools.py::test_a_task_goes_to_the_worker_that_can_do_least_else",
        ),
    ),
    Mutant(
        name="late-release-counts",
        guarantee="G23",
        file="timerd/core/assignment/pools.py",
        old="        for pool in self._workers.pop(worker, {}).values():\n",
        new="        for pool in list(self._workers.get(worker, {}).values()):\n",
        breaks="slots of a worker that is gone are given to tasks",
        tests=("tests/core/assignment/test_assignment.py::test_what_a_worker_that_is_gone_says_frees_nothing",),
    ),
    Mutant(
        name="equal-goes-on",
        guarantee="G23",
        file="timerd/core/assignment/contest.py",
        old="upto = max(key, heap[0][0] - 1) + found.ahead_ms if heap else LAST",
        new="upto = LAST",
        breaks="a queue that is ahead by one task takes all slots",
        tests=(
            DECISIONS,
            "tests/core/assignment/test_assignment.py::test_several_are_chosen_together_as_far_as_one_queue_is_ahead",
        ),
    ),
    Mutant(
        name="priority-passes-for-ever",
        guarantee="G23",
        file="timerd/core/assignment/contest.py",
        old="(order_key - found.ahead_ms, found.turn, self._entered",
        new="(order_key - found.ahead_ms, -found.turn, self._entered",
        breaks="of equal scores the queue that is served all the time is next",
        tests=(
            "tests/core/assignment/test_assignment.py"
            "::test_a_task_of_no_priority_passes_fresh_ones_of_priority_5_after_320_seconds",
        ),
    ),
    Mutant(
        name="limited-keeps-the-slot",
        guarantee="G23",
        file="timerd/services/dispatch/pool_round.py",
        old="            self._looks.seen(queue, allowed.next_ms)\n            return\n",
        new="            self._looks.seen(queue, allowed.next_ms + 0 * len(self._pools.take(queue, 1)))\n"
        "            return\n",
        breaks="a task that waits for a limit holds a slot",
        tests=(
            "tests/services/test_pools.py::test_a_row_that_waits_for_a_limit_holds_no_slot",
            "tests/fundamentals/test_pools.py"
            "::test_a_task_of_a_paused_queue_holds_no_slot_and_takes_one_when_it_goes_on",
        ),
    ),
    Mutant(
        name="no-order-key-no-slot",
        guarantee="G23",
        file="timerd/services/dispatch/pool_round.py",
        old="        contest.enter(queue, now_ms if key is None else key)\n",
        new="        contest.enter(queue, key) if key is not None else None\n",
        breaks="what has waited for the rate of its limit key never gets a slot",
        tests=("tests/fundamentals/test_pools.py::test_a_key_that_waited_for_its_rate_gets_a_slot_when_it_may_go_on",),
    ),
    Mutant(
        name="drained-goes-round",
        guarantee="G23",
        file="timerd/services/dispatch/delivery.py",
        old="            if not share.wanted(queue) and self.machine.wanted(queue):\n",
        new="            if not share.wanted(queue) and self.machine.capacity.pools.free(queue):\n",
        breaks="a server that goes away looks at what is due without a pause",
        tests=("tests/services/test_pools.py::test_a_server_that_goes_away_fills_no_slot",),
    ),
    Mutant(
        name="lent-and-free",
        guarantee="G23",
        file="timerd/services/work/credit_allocation.py",
        old="        for number, part in self._machine.capacity.pools.take(queue, slots):\n",
        new="        for number, part in ((p.worker, 1) for p in self._machine.capacity.pools if p.free):\n",
        breaks="a slot that another instance has is given to a task here as well",
        tests=(
            "tests/cluster/test_pools.py::test_a_slot_that_was_lent_and_not_used_goes_to_the_next_one",
            "tests/cluster/test_pools.py::test_a_slot_serves_tasks_that_other_instances_hold_and_no_more_than_it_can",
        ),
    ),
    Mutant(
        name="unused-slot-becomes-credit",
        guarantee="G23",
        file="timerd/core/dispatch/capacity.py",
        old="        if not self.pools.give_back(worker, queue, tasks):\n",
        new="        if self.pools.pool_of(worker, queue) is None or tasks:\n",
        breaks="a slot that comes back from another instance is for one queue from then on",
        tests=("tests/cluster/test_pools.py::test_a_slot_that_was_lent_and_not_used_goes_to_the_next_one",),
    ),
    Mutant(
        name="stale-want-kept",
        guarantee="G23",
        file="timerd/core/dispatch/grants.py",
        old="            self.want(peer, queue, want._replace(key=LAST))\n",
        new="            self.want(peer, queue, want)\n",
        breaks="an instance that does not use its slot gets it again and again, before all others",
        tests=("tests/cluster/test_pools.py::test_who_keeps_a_slot_for_too_long_loses_it_and_comes_last",),
    ),
    Mutant(
        name="slot-free-thread-runs",
        guarantee="G23",
        file="timerd/sdk/working/lanes.py",
        old="    for hold in call.holds:\n        host.in_hand.remove(hold)\n",
        new="    for hold in call.holds:\n        host.end(hold)\n",
        breaks="a slot counts as free while a thread that cannot be ended still runs in it",
        tests=("tests/sdk/test_pools.py::test_a_thread_that_goes_on_after_its_time_keeps_its_slot",),
    ),
    Mutant(
        name="slots-in-use-are-free-again",
        guarantee="G23",
        file="timerd/sdk/working/accounts.py",
        old="self.pool is None else sum(lane.held for lane in self.lanes)\n",
        new="self.pool is None else 0\n",
        breaks="after a broken stream a worker is sent more than it has free slots",
        tests=(
            "tests/sdk/test_pools.py::test_after_a_broken_stream_the_slots_in_use_are_not_free",
            "tests/fundamentals/test_pools.py::test_after_a_restart_the_slots_in_use_stay_in_use",
        ),
    ),
)
