"""What one instance asks another, and what it makes of the answer: G7 in a cluster."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="silence-taken-for-nobody",
        guarantee="G7",
        file="timerd/services/peers/remote_holders.py",
        old="            return await self._peers.ask_to_end(holder, partition, asks)\n\n"
        "        try:\n"
        "            said = await self._of_holder(partition, None, here, there)\n"
        "        except Silent:\n"
        "            return [SILENT] * len(asks)\n",
        new="            return await self._peers.ask_to_end(holder, partition, asks)\n\n"
        "        try:\n"
        "            said = await self._of_holder(partition, None, here, there)\n"
        "        except Silent:\n"
        "            return [HolderAnswer(None)] * len(asks)\n",
        breaks="CANCELLED is said although a holder that does not answer may send the task before it meets the mark",
        tests=(
            "tests/cluster/test_peers.py::test_a_dead_holder_leaves_a_cancel_pending_until_its_lease_is_over",
            "tests/cluster/test_peers_between_holders.py::test_no_answer_is_not_nobody",
        ),
    ),
    Mutant(
        name="silence-taken-for-not-in-hand",
        guarantee="G7",
        file="timerd/services/engine/engine.py",
        old="        if is_in_hand is None:\n            raise silent()\n"
        "        if (told := await drive(tell_mark(here), self._procedures)) is Cancelled.PENDING:\n"
        "            raise silent()\n",
        new="        told = await drive(tell_mark(here), self._procedures)\n",
        breaks="Get says CANCELLED of a task that a worker has and may acknowledge, for its holder does not answer",
        tests=(
            "tests/cluster/test_get_elsewhere.py::test_who_cannot_ask_the_holder_does_not_say_that_it_was_cancelled",
        ),
    ),
    Mutant(
        name="ack-seen-before-it-is-durable",
        guarantee="G7",
        file="timerd/services/holding/own_machines.py",
        old=" or (machine.recorded(key) in BY_WORD and machine.last_lsn > machine.done_through)\n",
        new="\n",
        breaks="Get says CANCELLED of a task whose ack is in its holder's memory and not yet in the store",
        tests=("tests/cluster/test_get_elsewhere.py::test_an_ack_that_is_not_durable_yet_is_in_flight_to_others",),
    ),
    Mutant(
        name="end-told-before-it-is-durable",
        guarantee="G7",
        file="timerd/services/engine/engine.py",
        old="locate(task, durable=True)",
        new="locate(task)",
        breaks="Get says of a task that it is dead before its dead letter is stored, and a crash takes the answer back",
        tests=("tests/fundamentals/test_store_down.py::test_get_tells_an_end_when_its_record_is_durable",),
    ),
    Mutant(
        name="mark-on-the-old-place-for-any-end",
        guarantee="G7",
        file="timerd/core/protocol/cancel.py",
        old="mine=asked.mine and ended is asked.outcome)\n",
        new="mine=asked.mine)\n",
        breaks="CANCELLED is said of a task that a worker has acknowledged in the place that it was carried on to",
        tests=(
            "tests/unit/test_cancel_carried.py::"
            "test_a_mark_on_a_place_that_it_left_says_nothing_of_an_end_of_another_kind",
        ),
    ),
    Mutant(
        name="mark-told-to-nobody",
        guarantee="G7",
        file="timerd/services/engine/engine.py",
        old="        if (told := await drive(tell_mark(here), self._procedures)) is Cancelled.PENDING:\n",
        new="        if (told := None) is Cancelled.PENDING:\n",
        breaks="a task fires that Get has said to be cancelled, for its caller died before the holder was asked",
        tests=("tests/cluster/test_get_marked.py::test_what_is_said_to_be_cancelled_is_not_delivered_after_that",),
    ),
    Mutant(
        name="holder-elsewhere-not-asked",
        guarantee="G7",
        file="timerd/services/peers/remote_holders.py",
        old="                said = await there(holder)\n",
        new="                said = None\n",
        breaks="a task that another instance holds fires although its cancel was answered with CANCELLED",
        tests=("tests/cluster/test_peers.py::test_a_cancel_through_the_other_instance_counts_to_the_last_millisecond",),
    ),
    Mutant(
        name="answers-by-any-token",
        guarantee="G7",
        file="timerd/services/peers/peer_service.py",
        old="token is not None and holding.fencing_token in (0, token)\n",
        new="token is not None\n",
        breaks="a holder that was succeeded speaks for its successor",
        tests=(
            "tests/cluster/test_peers_calls.py::test_only_the_holder_that_is_named_answers_by_the_token_that_is_named",
        ),
    ),
    Mutant(
        name="believes-itself-while-letting-go",
        guarantee="G7",
        file="timerd/services/peers/remote_holders.py",
        old="        return self._own.holds(partition) and self._is_trusted()\n",
        new="        return self._own.token(partition) is not None and self._is_trusted()\n",
        breaks="who lets go of a partition answers a cancel when the next holder is sending already",
        tests=("tests/cluster/test_peers_between_holders.py::test_who_is_letting_go_looks_whether_he_still_holds_it",),
    ),
    Mutant(
        name="old-place-not-asked",
        guarantee="G7",
        file="timerd/core/protocol/cancel.py",
        old="    if here.source is not None and isinstance(said, Cancelled):\n",
        new="    if here.source is not None and not isinstance(said, Cancelled):\n",
        breaks="a cancel goes by a record that came late, and who has the old row sends it after CANCELLED",
        tests=(
            "tests/unit/test_late_records.py::test_who_ends_a_task_reaches_its_row_where_a_late_record_says_that_it_was_carried_on",
        ),
    ),
    Mutant(
        name="cancelled-at-the-place-it-left",
        guarantee="G7",
        file="timerd/core/protocol/message_place.py",
        old="    yield from taken_along(marks)\n",
        new="",
        breaks="a cancel is answered while the row goes on to a later place, and the task is sent from there",
        tests=(
            "tests/unit/test_named_before_written.py::test_who_cancels_a_task_that_is_about_to_have_a_later_place_reaches_it_there",
        ),
    ),
    Mutant(
        name="ack-of-a-stream-that-ended",
        guarantee="G17",
        file="timerd/services/work/home.py",
        old="        if worker.number not in self._workers:\n            return\n        worker.stream.disown",
        new="        worker.stream.disown",
        breaks="the stream between two instances ends for all workers, since one has gone before its ack was taken up",
        tests=(
            "tests/services/test_home_orphans.py::"
            "test_what_a_worker_had_said_before_its_stream_ended_breaks_nothing_for_those_that_are_there",
        ),
    ),
)
