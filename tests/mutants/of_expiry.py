"""Mistakes in what counts as over since it has expired."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_UNIT = "tests/unit/test_end_expired.py"
_STORY = "tests/fundamentals/test_expired.py"
_SCREEN = "tests/fundamentals/test_overview.py"
MUTANTS = (
    Mutant(
        name="expired-by-one-clock",
        guarantee="G7",
        file="timerd/core/protocol/keys.py",
        old="        return (yield from end_expired(task, here))\n",
        new="        return Asked.ENDED\n",
        breaks="a holder whose clock is behind sends a task beside the one that got its key",
        tests=(f"{_UNIT}::test_whose_key_was_passed_on_is_not_sent_any_more",),
    ),
    Mutant(
        name="expired-in-hand-of-a-worker",
        guarantee="G7",
        file="timerd/core/protocol/cancel.py",
        old="        if answer.asked in (Asked.OPEN, Asked.SILENT):\n            return Asked.OPEN\n",
        new="        if answer.asked is Asked.SILENT:\n            return Asked.OPEN\n",
        breaks="what a worker has from before is marked as expired, and its ack is refused after a restart",
        tests=(f"{_UNIT}::test_what_a_worker_has_keeps_its_key_and_its_end",),
    ),
    Mutant(
        name="expired-for-all-its-lives",
        guarantee="G7",
        file="timerd/core/partition/pending_outcomes.py",
        old="        of_all = outcome not in UNMARKED\n",
        new="        of_all = outcome not in BY_WORD\n",
        breaks="a task that was moved in time, its expiry with it, never comes",
        tests=(f"{_UNIT}::test_a_task_that_was_moved_meanwhile_lives_on",),
    ),
    Mutant(
        name="expired-said-to-be-cancelled",
        guarantee="G7",
        file="timerd/core/protocol/cancel.py",
        old="    return Cancelled.ALREADY_FIRED if has_expired else Cancelled.ALREADY_CANCELLED\n",
        new="    return Cancelled.ALREADY_CANCELLED\n",
        breaks="a cancel of what has expired says that another call has cancelled it",
        tests=(f"{_UNIT}::test_marks_of_what_has_expired_are_read_as_such_by_whoever_meets_them",),
    ),
    Mutant(
        name="expired-is-pending",
        guarantee="G7",
        file="timerd/services/engine/expired.py",
        old="        return here.has_expired(self._sure_ms())\n",
        new="        return False\n",
        breaks="Get says that a task will come which never does",
        tests=(f"{_STORY}::test_get_and_list_say_so",),
    ),
    Mutant(
        name="last-attempt-untold",
        guarantee="G7",
        file="timerd/core/partition/settle_log.py",
        old="*batch.carries, *batch.last_attempts, *batch.ends\n",
        new="*batch.carries, *batch.ends\n",
        breaks="a task that was cancelled in a worker's hands does not tell of the attempt that failed after that",
        tests=(
            "tests/fundamentals/test_attempts.py::test_one_that_was_cancelled_in_hand_tells_of_its_last_attempt",
            "tests/fundamentals/test_attempts.py::test_one_that_expires_in_hand_tells_of_it",
        ),
    ),
    Mutant(
        name="expired-counts-as-due",
        guarantee="G7",
        file="timerd/core/due_queue/standing.py",
        old="    return None if ends_ms is None else ends_ms <= past_ms\n",
        new="    return None\n",
        breaks="what has expired in a queue without workers is told as due, and the doctor says that all is wrong",
        tests=(f"{_SCREEN}::test_what_has_expired_is_not_due_although_nobody_works_its_queue",),
    ),
    Mutant(
        name="cancelled-counts-as-due",
        guarantee="G7",
        file="timerd/core/partition/partition_machine.py",
        old="            self._table.end_early(self.known_ms(now_ms), now_ms, self.since_ms)\n",
        new="",
        breaks="what was cancelled or moved in a queue without workers is told as due until somebody works it",
        tests=(f"{_SCREEN}::test_what_was_cancelled_or_moved_is_not_due_although_nobody_works_its_queue",),
    ),
)
