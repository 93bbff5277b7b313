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
        breaks="the rows of a key are sealed once for each of them",
        tests=(f"{TESTS}::test_rows_of_a_key_stay_in_their_order",),
    ),
    Mutant(
        name="chain-passes-a-queue",
        guarantee="X1",
        file=SEALING,
        old="            over.add(name)\n",
        new="            over.update(())\n",
        breaks="a cancel passes the row that it cancels, which is of another queue",
        tests=(f"{TESTS}::test_the_rows_of_a_key_are_a_chain_as_far_as_they_are_of_one_queue",),
    ),
    Mutant(
        name="chain-side-by-side",
        guarantee="X1",
        file="timerd/outbox/chains.py",
        old="        if said is None or said.next is not Next.DONE:\n",
        new="        if said is None:\n",
        breaks="a cancel is sent though the row that it cancels was not answered",
        tests=("tests/outbox/test_chains.py::test_what_is_left_of_a_key_waits_and_all_else_is_over",),
    ),
    Mutant(
        name="chain-sealed-anew",
        guarantee="X1",
        file=SEALING,
        old="    if batch.verb != CHAINS:\n",
        new="    if batch:\n",
        breaks="what is left of a chain is sent by other bytes, while those of before may be on their way",
        tests=("tests/outbox/test_store.py::test_the_rest_of_chains_goes_on_by_the_same_bytes",),
    ),
    Mutant(
        name="chain-anew-in-part",
        guarantee="X1",
        file="timerd/outbox/chains.py",
        old="is_too_old = all(",
        new="is_too_old = any(",
        breaks="a row that was not answered is made anew beside its old bytes",
        tests=("tests/outbox/test_chains.py::test_chains_are_made_anew_only_where_nothing_of_them_can_be_stored",),
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
