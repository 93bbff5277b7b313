"""Mistakes in what those who look on are told."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="left-out-and-not-counted",
        guarantee="W1",
        file="timerd/core/dispatch/tail.py",
        old="        self.left_out += deliveries - allowed\n",
        new="",
        breaks="a screen that shows 50 of 5,000 a second looks as if there were 50",
        tests=("tests/property/test_tail.py::test_each_delivery_is_told_or_counted_and_each_end_once",),
    ),
    Mutant(
        name="waits-for-who-does-not-read",
        guarantee="W1",
        file="timerd/core/dispatch/tail.py",
        old="        if len(self._lines) >= MOST_WAITING:\n",
        new="        if len(self._lines) >= 1 << 40:\n",
        breaks="a terminal that was stopped takes the memory of the instance",
        tests=(
            "tests/property/test_tail.py::test_one_who_does_not_read_costs_so_many_lines_and_no_more",
            "tests/fundamentals/test_watch.py::test_one_who_does_not_read_holds_nobody_up",
        ),
    ),
    Mutant(
        name="mistake-of-the-tail-stops-settling",
        guarantee="W1",
        file="timerd/services/dispatch/live_tail.py",
        old='            with noted("watching", "who looks on is not told of what has ended"):\n',
        new="            if True:\n",
        breaks="a mistake in what people are shown leaves workers without an answer to their acks",
        tests=("tests/fundamentals/test_watch.py::test_a_mistake_in_what_is_told_costs_no_delivery",),
    ),
    Mutant(
        name="end-of-an-earlier-attempt",
        guarantee="W1",
        file="timerd/core/dispatch/tail.py",
        old="        if found is None or found.version != failed.key.version:\n",
        new="        if found is None:\n",
        breaks="a retry that runs is shown as failed",
        tests=("tests/property/test_tail.py::test_what_is_said_of_an_earlier_attempt_ends_no_later_one",),
    ),
    Mutant(
        name="reads-on-for-nobody",
        guarantee="W1",
        file="timerd/services/operating/watching.py",
        old="            self._tail.leave(telling.reader)\n",
        new="            pass\n",
        breaks="each look at the live page costs the instance something for ever",
        tests=("tests/fundamentals/test_watch.py::test_nothing_is_kept_while_nobody_looks_on",),
    ),
    Mutant(
        name="silent-instance-not-named",
        guarantee="W1",
        file="timerd/services/operating/watching.py",
        old="            telling.is_silent(name)\n",
        new="",
        breaks="what an instance sends that is not heard seems not to happen",
        tests=(
            "tests/cluster/test_watch.py::test_an_instance_of_an_older_release_is_left_out_and_said_so",
            "tests/cluster/test_watch.py::test_an_instance_that_is_gone_is_named_until_it_is_no_instance_any_more",
        ),
    ),
    Mutant(
        name="cancelled-shown-as-failed",
        guarantee="W1",
        file="timerd/services/dispatch/interrupting.py",
        old="            self._cancelled(taken)\n",
        new="            pass\n",
        breaks="who looks on waits for the next attempt of a task that was cancelled",
        tests=("tests/fundamentals/test_under_way.py::test_who_looks_on_reads_that_it_was_cancelled",),
    ),
)
