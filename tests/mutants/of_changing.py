"""What CANCELLED means, and which of two times a moved task has: G7, G8."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="verdict-not-checked-at-the-send",
        guarantee="G7",
        file="timerd/core/partition/row_gates.py",
        old="            if (outcome := self._pending(batch.key(row))) is not None:\n",
        new="            if (outcome := self._outcomes.of_row(batch.key(row))) is not None:\n",
        breaks="a task that is loaded fires although its cancel was answered with CANCELLED",
        tests=(
            "tests/fundamentals/test_cancel_and_move.py::test_a_cancel_in_the_last_millisecond_counts",
            "tests/scenarios/test_partition.py::test_story[a_cancel_of_rows_not_yet_known]",
        ),
    ),
    Mutant(
        name="cancel-without-its-mark",
        guarantee="G7",
        file="timerd/core/protocol/cancel_many.py",
        old="    count, looked = yield MarkAndLook(marks, Look((), tasks, unheld))\n",
        new="    count, looked = len(marks), (yield LookAt(Look((), tasks, unheld)))\n",
        breaks="a cancel lives in memory only: after a restart the task fires",
        tests=("tests/fundamentals/test_restart.py::test_cancels_and_moves_outlive_a_restart",),
    ),
    Mutant(
        name="cancels-together-not-loaded",
        guarantee="G7",
        file="timerd/adapters/sqlite/marks.py",
        old="            named.append((stored.id, stored.open().between(lo_ms, hi_ms).marks(partition)))\n",
        new="            stored.open()\n",
        breaks="tasks that were cancelled together fire after a restart",
        tests=("tests/fundamentals/test_restart.py::test_a_cancel_of_many_outlives_a_restart",),
    ),
    Mutant(
        name="later-cancel-counts-too",
        guarantee="G7",
        file="timerd/adapters/sqlite/mark_writing.py",
        old="        fresh = block.only(~is_known) if is_known.any() else block\n",
        new="        fresh = block\n",
        breaks="of two callers who cancel many tasks both are told that it was them",
        tests=("tests/sqlite/test_mark_blocks.py::test_a_repeat_writes_nothing",),
    ),
    Mutant(
        name="in-flight-said-to-be-cancelled",
        guarantee="G7",
        file="timerd/core/protocol/cancel_many.py",
        old="        return Cancelled.IN_FLIGHT\n",
        new="        return Cancelled.CANCELLED\n",
        breaks="CANCELLED is said of what a worker has in hand",
        tests=("tests/fundamentals/test_cancel_and_move.py::test_a_task_in_hand_is_in_flight",),
    ),
    Mutant(
        name="retried-although-cancelled",
        guarantee="G7",
        file="timerd/core/partition/row_table.py",
        old="            outcome = rows.pending(key)\n",
        new="            outcome = rows.outcomes.of_row(key)\n",
        breaks="a task that was cancelled while a worker had it is tried again",
        tests=("tests/scenarios/test_partition.py::test_story[cancelled_while_a_worker_has_it_and_retried]",),
    ),
    Mutant(
        name="late-ack-takes-back-a-cancel",
        guarantee="G7",
        file="timerd/services/engine/elsewhere.py",
        old="and machine.is_stopped(key)\n",
        new="and recorded is None\n",
        breaks="CANCELLED was answered after a crash, and an ack from before it makes the repeat say ALREADY_FIRED",
        tests=(
            "tests/services/test_late_acks.py::"
            "test_an_ack_from_before_a_crash_does_not_take_back_what_was_answered_since",
        ),
    ),
    Mutant(
        name="moved-before-it-is-decided",
        guarantee="G8",
        file="timerd/core/protocol/move.py",
        old="        MoveState.MOVING,\n",
        new="        MoveState.MOVED,\n",
        breaks="a move counts before the holder of the old row was asked: after a crash in between both rows fire",
        tests=("tests/unit/test_moves.py::test_a_move_that_stops_anywhere_leaves_one_row_that_fires",),
    ),
    Mutant(
        name="old-row-dropped-for-nothing",
        guarantee="G8",
        file="timerd/core/protocol/move.py",
        old="state = MoveState.MOVED if free and taken else MoveState.FAILED",
        new="state = MoveState.MOVED if free else MoveState.FAILED",
        breaks="the old row is given up although the new one came to a place where nobody takes it in",
        tests=("tests/unit/test_moves.py::test_a_place_that_is_closed_is_not_moved_to",),
    ),
    Mutant(
        name="moved-without-asking-the-holder",
        guarantee="G8",
        file="timerd/core/protocol/move.py",
        old="    elif answer.asked is Asked.OPEN:\n        why = WITH_WORKER\n",
        new="",
        breaks="a task that is with a worker is moved as well, and delivered twice",
        tests=("tests/unit/test_procedures.py::test_what_is_with_a_worker_is_not_moved",),
    ),
    Mutant(
        name="moved-row-does-not-wait",
        guarantee="G8",
        file="timerd/core/partition/rows_in_hand.py",
        old="            if not flagged[n] and key.digest not in moves:\n",
        new="            if not flagged[n] or key.digest not in moves:\n",
        breaks="a row that was moved in fires before it is decided which of the two lives",
        tests=("tests/scenarios/test_partition.py::test_story[a_moved_in_row]",),
    ),
    Mutant(
        name="written-again-in-its-backlog",
        guarantee="G7",
        file="timerd/core/protocol/lookup.py",
        old="    partition = Partition(TIME_SCOPE, bucket_of(position_ms), place.partition.shard)\n",
        new="    partition = Partition(place.partition.scope, bucket_of(position_ms), place.partition.shard)\n",
        breaks="a task whose backlog was closed for good is written where nobody looks for it",
        tests=(
            "tests/unit/test_written_again.py::"
            "test_what_its_backlog_does_not_take_any_more_is_found_where_it_was_written_again",
        ),
    ),
)
