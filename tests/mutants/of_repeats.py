"""What a call that comes twice is answered, and leaves as it is: G2."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROCEDURES = "tests/unit/test_procedures.py::"
WITHOUT_KEY = "tests/unit/test_without_key.py::"
CANCEL_AGAIN = "tests/unit/test_cancel_again.py::"
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
        old="        if found is None or (is_of(entry, mine) and not entry.active):\n",
        new="        if is_of(entry, mine):\n            return False\n        if found is None:\n",
        breaks="two tries of one call take the key from each other, and a task that is stored is cancelled",
        tests=(PROCEDURES + "test_tries_of_one_call_that_reserve_in_turn_take_the_key_from_nobody",),
    ),
    Mutant(
        name="said-before-its-key-is-decided",
        guarantee="G2",
        file="timerd/core/protocol/keys.py",
        old="            return Reserved(had_it=had is Had.ACTIVE, is_behind=had is not Had.ACTIVE)\n",
        new="            return Reserved(had_it=True)\n",
        breaks="a repeat says STORED of a task that the first try cancels, for another call took its key",
        tests=(
            WITHOUT_KEY + "test_a_repeat_does_not_say_that_a_task_is_stored_which_the_first_try_cancels",
            WITHOUT_KEY + "test_a_repeat_looks_for_its_task_where_it_was_stored_the_first_time",
        ),
    ),
    Mutant(
        name="key-lost-without-a-trace",
        guarantee="G2",
        file="timerd/core/protocol/keys.py",
        old="        wanted, latest_ms = yield from with_past(entry, mine, first.asked_ms)\n",
        new="        return False\n",
        breaks="one try of a call takes the key back and says STORED, while another one cancels their task",
        tests=(WITHOUT_KEY + "test_no_try_takes_the_key_back_while_another_one_cancels_their_task",),
    ),
    Mutant(
        name="key-of-a-task-to-come",
        guarantee="G2",
        file="timerd/core/protocol/keys.py",
        old="    return named[0] if entry.active and named else None\n",
        new="    return named[0] if named else None\n",
        breaks="a cancel by key says NOT_FOUND of a task that is not written yet, and its repeat cancels it",
        tests=("tests/unit/test_key_targets.py::test_a_call_by_key_is_about_no_task_that_is_not_written_yet",),
    ),
    Mutant(
        name="replaces-nobody-without-the-key",
        guarantee="G7",
        file="timerd/core/protocol/keys.py",
        old="    yield from _end_named(_before(entry, mine), mine, reserved.replaces)\n",
        new="",
        breaks="a call that replaces a task is answered STORED, and that task fires after it",
        tests=(WITHOUT_KEY + "test_a_task_that_stands_without_its_key_has_replaced_whom_it_was_to_replace",),
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
        old="    said = said if asked.is_repeat else (yield from _or_in_flight(here, asked.outcome, said))\n",
        new="    said = yield from _or_in_flight(here, asked.outcome, said)\n",
        breaks="a worker comes back after CANCELLED was said, and the repeat of the cancel says IN_FLIGHT",
        tests=(
            "tests/cluster/test_calls_again.py::test_a_worker_that_comes_back_changes_nothing_of_what_a_cancel_said",
        ),
    ),
    Mutant(
        name="came-back-where-nobody-holds-it",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="    if asked.is_repeat or not isinstance(said, Cancelled):\n",
        new="    if not isinstance(said, Cancelled):\n",
        breaks="a worker comes back after CANCELLED was said where nobody holds the task: the repeat says IN_FLIGHT",
        tests=(CANCEL_AGAIN + "test_a_worker_that_comes_back_where_nobody_holds_the_task_changes_nothing",),
    ),
    Mutant(
        name="cancelled-and-then-stopped",
        guarantee="G2",
        file="timerd/services/holding/own_machines.py",
        old="        if in_hand and asked is not Asked.UNKNOWN and machine.is_stopped(request.key):\n",
        new="        if in_hand and asked is not Asked.UNKNOWN:\n",
        breaks="a worker comes back after CANCELLED was said, and its holder says that it is in flight",
        tests=(
            CANCEL_AGAIN + "test_a_worker_that_comes_back_changes_nothing_while_its_holder_has_yet_to_write_the_end",
        ),
    ),
    Mutant(
        name="in-flight-to-one-try-only",
        guarantee="G2",
        file="timerd/services/holding/own_machines.py",
        old="        was_open = machine.stopped_by(request.key) == request.request\n",
        new="        was_open = False\n",
        breaks="of two tries of a cancel one says IN_FLIGHT, and the other one CANCELLED",
        tests=(CANCEL_AGAIN + "test_tries_beside_each_other_say_the_same_when_the_worker_fails_the_task_between_them",),
    ),
    Mutant(
        name="cancelled-is-not-set",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="    said = yield from _said_by_all_tries(task, here, request, said, now_ms)\n",
        new="",
        breaks="a try of a cancel says CANCELLED, and another one that was held up IN_FLIGHT",
        tests=(CANCEL_AGAIN + "test_a_try_that_finds_the_task_cancelled_answers_for_one_that_found_it_with_a_worker",),
    ),
    Mutant(
        name="first-tries-say-otherwise",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="            said = yield from _said_by_all_tries(task, again, request, said, now_ms)\n",
        new="",
        breaks="of two tries of a cancel that mark the task at once one says IN_FLIGHT, and the other one CANCELLED",
        tests=(
            CANCEL_AGAIN
            + "test_tries_that_mark_it_at_once_say_the_same_when_a_worker_has_it_for_one_of_them_only[False]",
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
    Mutant(
        name="own-mark-taken-for-a-repeat",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="not is_marked and _is_marked_by(here, outcome, request)",
        new="_is_marked_by(here, outcome, request)",
        breaks="a cancel is refused as the repeat of itself",
        tests=("tests/services/test_ending.py::test_a_cancel_that_has_marked_its_task_is_no_repeat_of_itself",),
    ),
    Mutant(
        name="lease-of-the-row-not-looked-at",
        guarantee="G2",
        file="timerd/core/protocol/cancel.py",
        old="    is_in_hand: bool = yield AskInHand(here.place.key, _lease_of(here))\n",
        new="    is_in_hand: bool = yield AskInHand(here.place.key)\n",
        breaks="of two tries of a cancel one says CANCELLED, and the other one IN_FLIGHT for good",
        tests=("tests/unit/test_cancel_handed_over.py::test_what_was_handed_over_with_its_lease_is_in_flight",),
    ),
    Mutant(
        name="repeat-lets-in-what-was-refused",
        guarantee="G2",
        file="timerd/services/engine/engine.py",
        old="if at not in refused_now or digest in there])",
        new="if at not in refused_now or digest])",
        breaks="the repeat of a batch stores what was refused when it was made first",
        tests=(
            "tests/fundamentals/test_repeats.py::test_an_item_that_was_refused_is_refused_again_for_the_same_reason",
            "tests/fundamentals/test_repeats.py::test_what_was_refused_for_the_time_is_not_let_in_by_a_repeat",
        ),
    ),
)
