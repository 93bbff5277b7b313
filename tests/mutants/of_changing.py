"""What CANCELLED means, and which of two times a moved task has: G7, G8."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="verdict-not-checked-at-the-send",
        guarantee="G7",
        file="timerd/core/rows_in_hand.py",
        old="                if (verdict := self.verdict(key)) is not None:\n",
        new="                if (verdict := self.row_verdicts.get(key)) is not None:\n",
        breaks="a task that is loaded fires although its cancel was answered with CANCELLED",
        tests=(
            "tests/fundamentals/test_cancel_and_move.py::test_a_cancel_in_the_last_millisecond_counts",
            "tests/unit/test_partition_machine.py::test_a_verdict_stands_for_rows_not_yet_known",
        ),
    ),
    Mutant(
        name="cancel-without-its-mark",
        guarantee="G7",
        file="timerd/core/cancel_many.py",
        old="    count, looked = yield MarkAndLook(marks, Look((), tasks, unheld))\n",
        new="    count, looked = len(marks), (yield LookAt(Look((), tasks, unheld)))\n",
        breaks="a cancel lives in memory only: after a restart the task fires",
        tests=("tests/fundamentals/test_restart.py::test_cancels_and_moves_outlive_a_restart",),
    ),
    Mutant(
        name="in-flight-said-to-be-cancelled",
        guarantee="G7",
        file="timerd/core/cancel_many.py",
        old="        return Cancelled.IN_FLIGHT\n",
        new="        return Cancelled.CANCELLED\n",
        breaks="CANCELLED is said of what a worker has in hand",
        tests=("tests/fundamentals/test_cancel_and_move.py::test_a_task_in_hand_is_in_flight",),
    ),
    Mutant(
        name="retried-although-cancelled",
        guarantee="G7",
        file="timerd/core/carrying.py",
        old="        verdict = rows.verdict(key)\n",
        new="        verdict = rows.row_verdicts.get(key)\n",
        breaks="a task that was cancelled while a worker had it is tried again",
        tests=("tests/unit/test_partition_machine.py::test_a_task_that_was_cancelled_in_flight_is_not_carried_on",),
    ),
    Mutant(
        name="moved-before-it-is-decided",
        guarantee="G8",
        file="timerd/core/move.py",
        old="    move = Move(number, MoveState.MOVING, here.place,",
        new="    move = Move(number, MoveState.MOVED, here.place,",
        breaks="a move counts before the holder of the old row was asked: after a crash in between both rows fire",
        tests=("tests/unit/test_moves.py::test_a_move_that_stops_anywhere_leaves_one_row_that_fires",),
    ),
    Mutant(
        name="old-row-dropped-for-nothing",
        guarantee="G8",
        file="timerd/core/move.py",
        old="state = MoveState.MOVED if free and taken else MoveState.FAILED",
        new="state = MoveState.MOVED if free else MoveState.FAILED",
        breaks="the old row is given up although the new one came to a place where nobody takes it in",
        tests=("tests/unit/test_moves.py::test_a_place_that_is_closed_is_not_moved_to",),
    ),
    Mutant(
        name="moved-without-asking-the-holder",
        guarantee="G8",
        file="timerd/core/move.py",
        old='    if answer.asked is Asked.OPEN:\n        return False, "is with a worker"\n',
        new="",
        breaks="a task that is with a worker is moved as well, and delivered twice",
        tests=("tests/unit/test_procedures.py::test_what_is_with_a_worker_is_not_moved",),
    ),
    Mutant(
        name="moved-row-does-not-wait",
        guarantee="G8",
        file="timerd/core/rows_in_hand.py",
        old="            if not flagged[n] and key.digest not in self.suspended:\n",
        new="            if not flagged[n] or key.digest not in self.suspended:\n",
        breaks="a row that was moved in fires before it is decided which of the two lives",
        tests=("tests/unit/test_moves.py::test_a_moved_in_row_waits_for_an_answer_of_moves",),
    ),
)
