"""Mistakes in what tasks make when they end."""

from tests.mutants.mutant import Mutant

_STORY = "tests/fundamentals/test_on_end.py"
_UNIT = "tests/unit/test_told_ends.py"
MUTANTS = (
    Mutant(
        name="end-without-its-task",
        guarantee="R2",
        file="timerd/core/partition/open_records.py",
        old="        if not (batch.groups or batch.ends):\n",
        new="        if not batch.groups:\n",
        breaks="an end is confirmed, and passed by the marks, before the task that it makes is stored",
        tests=(f"{_UNIT}::test_an_end_is_not_done_before_its_task_is",),
    ),
    Mutant(
        name="ends-not-made-again",
        guarantee="R2",
        file="timerd/core/partition/settle_log.py",
        old="            self.records.redo_ends(number, standing([c for c in record.carries if c.ended], entries))\n",
        new="",
        breaks="a holder dies between the end and its task, which is never made",
        tests=(
            f"{_UNIT}::test_the_next_holder_makes_the_same_task",
            f"{_STORY}::test_who_dies_between_the_end_and_its_task_has_made_it",
        ),
    ),
    Mutant(
        name="retry-on-its-way-tells-nothing",
        guarantee="R2",
        file="timerd/core/protocol/told_ends.py",
        old="        row = place.rows.one(int(at[0])) if len(at) else on_their_way.get(key)\n",
        new="        row = place.rows.one(int(at[0])) if len(at) else None\n",
        breaks="a retry that is cancelled before the store has its row makes no task",
        tests=(f"{_UNIT}::test_a_retry_that_is_cancelled_on_its_way_to_the_store_tells_its_end",),
    ),
    Mutant(
        name="made-anew-by-each-holder",
        guarantee="R2",
        file="timerd/core/protocol/told_ends.py",
        old="    prefix = np.frombuffer(prefix_of(delivery_id_of(ended.key.digest, ended.key.version)), PREFIX)\n",
        new='    prefix = np.frombuffer(__import__("os").urandom(12), PREFIX)\n',
        breaks="each holder that meets the record makes another task",
        tests=(f"{_UNIT}::test_the_next_holder_makes_the_same_task",),
    ),
    Mutant(
        name="copy-ends-again",
        guarantee="R2",
        file="timerd/core/partition/told_ends.py",
        old="            if delivery_id not in seen and not isinstance(before.otherwise(key), Outcome):\n",
        new="            if True:\n",
        breaks="a task that a repeated call has written twice makes two",
        tests=(f"{_UNIT}::test_a_copy_that_ends_with_its_task_tells_nothing",),
    ),
    Mutant(
        name="left-by-a-move-and-told",
        guarantee="R2",
        file="timerd/core/protocol/told_ends.py",
        old="        if not _may_be_left(row, place) or (yield from _lives(key)):\n",
        new="        if True:\n",
        breaks="a task that was moved, and cancelled, tells at its old place as well",
        tests=(f"{_UNIT}::test_a_row_that_a_move_has_left_tells_nothing",),
    ),
)
