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
        file="timerd/outbox/in_hand.py",
        old="not each.keys.isdisjoint(mine.keys)",
        new="each.keys == mine.keys",
        breaks="a batch with some of the keys of an earlier one is sent beside it",
        tests=("tests/outbox/test_held_up.py::test_batches_wait_for_lower_ones_with_one_of_their_keys",),
    ),
    Mutant(
        name="gone-taken-for-over",
        guarantee="X1",
        file="timerd/outbox/elsewhere.py",
        old="any(no not in known or not known[no].isdisjoint(keys) for no in lower)",
        new="any(no in known and not known[no].isdisjoint(keys) for no in lower)",
        breaks="a batch passes the halves of an earlier one, which another relay has made of it a moment ago",
        tests=("tests/outbox/test_held_up.py::test_the_keys_of_other_relays_are_read_once",),
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
        old="    if not error.reason or is_retryable(error)",
        new="    if is_retryable(error)",
        breaks="a row whose outcome is unknown is put with the refused ones",
        tests=("tests/outbox/test_outcomes.py::test_of_a_call_that_failed_as_a_whole",),
    ),
)
