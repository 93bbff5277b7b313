"""What comes from an outbox: X1."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SEALING, TESTS = "timerd/outbox/sealing.py", "tests/outbox/test_sealing.py"

MUTANTS = (
    Mutant(
        name="rows-of-a-key-together",
        guarantee="X1",
        file=SEALING,
        old="            seen.add(name)\n",
        new="            seen.update(())\n",
        breaks="a cancel passes the row that it cancels",
        tests=(f"{TESTS}::test_rows_of_a_key_stay_in_their_order",),
    ),
    Mutant(
        name="halves-behind-the-next",
        guarantee="X1",
        file=SEALING,
        old="no + 2 * len(first), made_ms, second",
        new="no + NUMBER_STEP * len(first), made_ms, second",
        breaks="rows of a batch that was refused as a whole come after those of later batches",
        tests=(f"{TESTS}::test_halves_lie_between_their_batch_and_the_next",),
    ),
    Mutant(
        name="keys-not-waited-for",
        guarantee="X1",
        file=SEALING,
        old="seen: set[QualifiedName] = set(busy)",
        new="seen: set[QualifiedName] = set(busy and ())",
        breaks="a cancel is sent beside the batch that it cancels something of",
        tests=(f"{TESTS}::test_a_row_waits_while_a_sealed_batch_has_its_key",),
    ),
    Mutant(
        name="behind-what-is-shut",
        guarantee="X1",
        file="timerd/outbox/sqlite.py",
        old="            behind.update([name] if row.key else [])\n",
        new="            behind.update(())\n",
        breaks="a cancel passes the row that it cancels, whose queue is shut",
        tests=("tests/outbox/test_store.py::test_rows_of_a_queue_are_left_with_what_comes_behind_them",),
    ),
    Mutant(
        name="mark-trusted-for-keys",
        guarantee="X1",
        file="timerd/outbox/low_mark.py",
        old="        return not above or not any(row.key for row in rows)\n",
        new="        return not above or not rows or bool(rows)\n",
        breaks="a cancel passes a row with a lower id that was committed late",
        tests=(f"{TESTS}::test_the_low_mark_is_no_promise",),
    ),
    Mutant(
        name="unknown-given-up",
        guarantee="X1",
        file="timerd/outbox/outcomes.py",
        old="error.reason == QUEUE_SHUT or not error.reason or is_retryable(error)",
        new="error.reason == QUEUE_SHUT or is_retryable(error)",
        breaks="a row whose outcome is unknown is put with the refused ones",
        tests=("tests/outbox/test_outcomes.py::test_of_a_call_that_failed_as_a_whole",),
    ),
    Mutant(
        name="shut-taken-for-final",
        guarantee="X1",
        file="timerd/outbox/outcomes.py",
        old="if shut and not stored and not before:",
        new="if not stored and before:",
        breaks="rows of a queue that is shut are sealed anew, while the bytes that were sent for them may still arrive",
        tests=("tests/outbox/test_outcomes.py::test_a_batch_whose_queue_is_shut_stays_as_it_is",),
    ),
)
