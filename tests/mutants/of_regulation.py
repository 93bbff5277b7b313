"""Mistakes in what queues may do by their rules."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="rules-not-read-first",
        guarantee="G19",
        file="timerd/core/regulation/known_rules.py",
        old="        self.is_read = self._was_read = False\n",
        new="        self.is_read, self._was_read = True, False\n",
        breaks="an instance that has just started sends what is paused",
        tests=(
            "tests/unit/test_known_rules.py"
            "::test_nothing_is_sent_before_the_rules_were_read_but_what_an_instance_gives_itself",
        ),
    ),
    Mutant(
        name="paused-said-early",
        guarantee="G19",
        file="timerd/services/regulation/told.py",
        old="        asked = [each for each in living if not self._membership.is_dead(each)]\n",
        new="        asked = living[:0]\n",
        breaks="PAUSED is said while other instances send",
        tests=(
            "tests/cluster/test_queue_modes.py::test_a_pause_by_one_instance_holds_on_all",
            "tests/cluster/test_queue_modes.py::test_who_does_not_answer_is_named_until_it_is_known_to_be_dead",
        ),
    ),
    Mutant(
        name="rules-of-before-the-lapse",
        guarantee="G19",
        file="timerd/core/regulation/known_rules.py",
        old="        self.life += 1\n        self.is_read = False\n",
        new="        self.life += 0\n",
        breaks="an instance that was taken for dead goes on by the rules of before",
        tests=(
            "tests/unit/test_known_rules.py::test_after_the_lease_was_lost_nothing_is_sent_until_all_was_read_anew",
        ),
    ),
    Mutant(
        name="not-seen-by-others",
        guarantee="G19",
        file="timerd/core/regulation/changing.py",
        old="    if me is not None and not (yield from _is_seen(*me)):\n",
        new="    if me is not None and not me:\n",
        breaks="an instance reads the rules before others see it, and they change them without it",
        tests=("tests/unit/test_changing_rules.py::test_in_every_order_of_the_steps_nobody_sends_after_the_answer",),
    ),
    Mutant(
        name="drained-takes-in",
        guarantee="G19",
        file="timerd/services/regulation/regulating.py",
        old="        if not mode.takes_in:\n",
        new="        if not mode.takes_in and not mode.sends:\n",
        breaks="a queue that is DRAINING takes tasks in",
        tests=(
            "tests/fundamentals/test_queue_modes.py"
            "::test_a_queue_that_takes_nothing_in_refuses_before_anything_is_written",
        ),
    ),
    Mutant(
        name="slices-counted-as-one",
        guarantee="G20",
        file="timerd/core/regulation/limit_count.py",
        old="        self.rate.sent(tasks, now_ms)\n",
        new="        self.rate.sent(min(tasks, 1), now_ms)\n",
        breaks="what goes in one slice counts as one start",
        tests=("tests/fundamentals/test_queue_limits.py::test_a_burst_goes_at_once_and_the_rest_at_the_rate",),
    ),
    Mutant(
        name="burst-after-each-start",
        guarantee="G20",
        file="timerd/core/regulation/limits.py",
        old="            is_from_before = self._known.is_from_before(queue)\n",
        new="            is_from_before = False\n",
        breaks="each restart gives another burst",
        tests=("tests/fundamentals/test_queue_limits.py::test_a_restart_gives_no_second_burst",),
    ),
    Mutant(
        name="nobody-hears-of-an-end",
        guarantee="G20",
        file="timerd/core/dispatch/hand_count.py",
        old="            on_less()\n",
        new="            pass\n",
        breaks="a queue that had all that it may in hand stands still",
        tests=("tests/unit/test_rule_limits.py::test_who_waits_for_an_end_is_told_of_it_once",),
    ),
    Mutant(
        name="shared-counted-apart",
        guarantee="G20",
        file="timerd/core/regulation/limits.py",
        old="LimitCount(name.limit, kept.limit, self._known.listed_by(name), is_from_before)",
        new="LimitCount(name.limit, kept.limit, list(self._known.listed_by(name))[:1], is_from_before)",
        breaks="of queues that share a limit only one counts",
        tests=("tests/unit/test_rule_limits.py::test_queues_that_list_a_limit_have_so_many_in_hand_together",),
    ),
    Mutant(
        name="brought-back-not-counted",
        guarantee="G20",
        file="timerd/services/regulation/placing.py",
        old="                self._brought.place(delivery_id, queue)\n",
        new="                self._brought.place(delivery_id, None)\n",
        breaks="after a restart as many again are sent as workers have in hand",
        tests=(
            "tests/fundamentals/test_limits_over_restarts.py::test_what_workers_bring_from_before_a_restart_counts",
        ),
    ),
    Mutant(
        name="sends-before-workers-are-back",
        guarantee="G20",
        file="timerd/services/regulation/placing.py",
        old="        self._brought.begin(self._now_ms() + RETURN_MS)\n",
        new="        self._brought.begin(self._now_ms())\n",
        breaks="a server that has just started sends before it knows what is in hand",
        tests=(
            "tests/fundamentals/test_limits_over_restarts.py"
            "::test_after_a_start_a_limited_queue_waits_for_workers_to_come_back",
        ),
    ),
    Mutant(
        name="listed-yet-deleted",
        guarantee="G20",
        file="timerd/services/regulation/limiting.py",
        old="            await self._check_unlisted(name)\n",
        new="",
        breaks="a limit is deleted that a queue lists, which stands still",
        tests=("tests/fundamentals/test_named_limits.py::test_a_queue_lists_what_is_there_and_what_is_listed_stays",),
    ),
    Mutant(
        name="two-of-a-key",
        guarantee="G21",
        file="timerd/core/ordering/order_keys.py",
        old="        return not filed.line.blocked and filed.line.first() is filed\n",
        new="        return filed.line.first() is filed\n",
        breaks="two tasks of an ordering key are with workers at once",
        tests=("tests/unit/test_ordering_keys.py::test_what_is_sent_beside_another_key_is_no_second_one_of_it",),
    ),
    Mutant(
        name="next-before-durable",
        guarantee="G21",
        file="timerd/core/partition/row_table.py",
        old="        return self._log.flush()\n",
        new="        self._rows.ordered.order_keys.free([key for key, _ in self._log.records.next.ended])\n"
        "        return self._log.flush()\n",
        breaks="the next task of a key starts when the end of the one before is known, and a crash takes that back",
        tests=(
            "tests/unit/test_ordering_keys.py::test_the_next_one_is_sent_when_the_end_of_the_one_before_is_durable",
        ),
    ),
    Mutant(
        name="retry-moves",
        guarantee="G21",
        file="timerd/core/partition/carry.py",
        old='    if not int(rows.columns["flags"][row]) & FLAG_ORDERED:\n',
        new='    if int(rows.columns["flags"][row]) & FLAG_ORDERED:\n',
        breaks="a retry goes to a later bucket, and those behind it are met first",
        tests=("tests/unit/test_ordering_keys.py::test_a_retry_stands_where_the_attempt_before_stood",),
    ),
    Mutant(
        name="unread-before-it",
        guarantee="G21",
        file="timerd/core/ordering/key_gate.py",
        old="        if key.position_ms >= sure_ms:\n",
        new="        if key.position_ms > sure_ms + LOOK_MS * 1_000_000:\n",
        breaks="a task is sent while one that comes before it has not been read",
        tests=("tests/unit/test_ordering_keys.py::test_nothing_is_sent_that_may_not_be_the_first",),
    ),
)
