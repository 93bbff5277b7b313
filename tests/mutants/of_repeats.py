"""What a call that comes twice is answered, and leaves as it is: G2."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROCEDURES = "tests/unit/test_procedures.py::"
REPEATS = "tests/fundamentals/test_repeats.py::"

MUTANTS = (
    Mutant(
        name="past-moves-forgotten",
        guarantee="G2",
        file="timerd/core/protocol/past_moves.py",
        old="    done, has_older = move.carried_out(), move.has_older\n",
        new="    done, has_older = move.done, move.has_older\n",
        breaks="a repeat of a move undoes a later one",
        tests=(REPEATS + "test_a_repeat_of_a_move_does_not_undo_a_later_one",),
    ),
    Mutant(
        name="past-keys-forgotten",
        guarantee="G2",
        file="timerd/core/protocol/past_keys.py",
        old="        done = (*done, HadKey(task.digest.hex(), entry.asked_ms, entry.active))\n",
        new="        done = done[:]\n",
        breaks="a repeat takes the key from a later call, and cancels its task",
        tests=(REPEATS + "test_a_repeat_of_replace_does_not_take_the_key_from_a_later_call",),
    ),
    Mutant(
        name="key-taken-by-another-try",
        guarantee="G2",
        file="timerd/core/protocol/keys.py",
        old="        if reserved_anew.active or not is_of(reserved_anew, mine):\n            break\n",
        new="        break\n",
        breaks="two tries of one call take the key from each other, and a task that is stored is cancelled",
        tests=(PROCEDURES + "test_tries_of_one_call_that_reserve_in_turn_take_the_key_from_nobody",),
    ),
    Mutant(
        name="moved-away-counts-as-ended",
        guarantee="G7",
        file="timerd/core/protocol/lookup.py",
        old="        if here.ending.outcome is not Outcome.MOVED:\n            return here\n",
        new="        return here\n",
        breaks="who takes a key over leaves the task alive that has just been moved",
        tests=("tests/unit/test_moved_meanwhile.py::test_a_task_that_is_moved_while_it_is_looked_for_has_not_ended",),
    ),
    Mutant(
        name="cancelled-by-whom-the-holder-heard",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="first = here.first(MARK_OF_OUTCOME[outcome]) if outcome is not Outcome.ACKED else answer.request",
        new="first = answer.request",
        breaks="a call is answered CANCELLED, and its repeat ALREADY_CANCELLED",
        tests=("tests/cluster/test_calls_again.py::test_whose_cancel_came_first_is_said_alike_by_every_try",),
    ),
    Mutant(
        name="held-up-by-the-clock-of-the-start",
        guarantee="G2",
        file="timerd/core/protocol/keys.py",
        old="is_overtaken(asked_ms, held_ms, now_ms()):",
        new="is_overtaken(asked_ms, held_ms, asked_ms):",
        breaks="a try that a slow store held up takes the key from a later call that was acknowledged",
        tests=(PROCEDURES + "test_a_try_that_was_held_up_on_its_way_takes_the_key_from_no_later_call",),
    ),
    Mutant(
        name="came-back-after-cancelled",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="            said = said if is_repeat else (yield from _or_in_flight(here, outcome, said))\n",
        new="            said = yield from _or_in_flight(here, outcome, said)\n",
        breaks="a worker comes back after CANCELLED was said, and the repeat of the cancel says IN_FLIGHT",
        tests=(
            "tests/cluster/test_calls_again.py::test_a_worker_that_comes_back_changes_nothing_of_what_a_cancel_said",
        ),
    ),
    Mutant(
        name="repeat-says-pending",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="    if said is Cancelled.PENDING and is_repeat and now_ms:\n",
        new="    if said is None:\n",
        breaks="the repeat of a cancel takes CANCELLED back while the holder of the task does not answer",
        tests=(
            "tests/cluster/test_calls_again.py::"
            "test_the_repeat_of_a_cancel_takes_nothing_back_while_the_holder_is_silent",
        ),
    ),
    Mutant(
        name="repeat-named-the-first-place",
        guarantee="G2",
        file="timerd/services/engine/engine.py",
        old="            return placed_ms, _moved(tasks, placed_ms, again)\n",
        new="            return placed_ms, placed_ms if again else placed_ms\n",
        breaks="a task that was written again has one id for its first try, and another one for each repeat",
        tests=(
            "tests/fundamentals/test_written_again_ids.py::test_each_try_is_answered_with_the_id_of_the_later_place",
        ),
    ),
    Mutant(
        name="in-flight-not-remembered",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="    if said is Cancelled.IN_FLIGHT and now_ms:\n",
        new="    if said is Cancelled.IN_FLIGHT and not now_ms:\n",
        breaks="the worker has acked meanwhile, and the repeat of a cancel that said IN_FLIGHT says ALREADY_FIRED",
        tests=(
            "tests/cluster/test_calls_again.py::test_a_worker_that_comes_back_changes_nothing_of_what_a_cancel_said",
        ),
    ),
    Mutant(
        name="lost-for-all-tries",
        guarantee="G2",
        file="timerd/services/engine/keying.py",
        old="            keys.refused[row] = of_this_try(key_lost())\n",
        new="            keys.refused[row] = key_lost()\n",
        breaks="one try of a Schedule says that nothing is stored, and another one beside it that the task is",
        tests=(
            "tests/services/test_keying.py::"
            "test_who_finds_the_key_taken_of_a_task_that_another_try_writes_speaks_of_itself_only",
        ),
    ),
)
