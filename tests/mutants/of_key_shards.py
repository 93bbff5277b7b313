"""Mistakes in how the order of ordering keys is kept between instances."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="key-shard-not-kept",
        guarantee="G21",
        file="timerd/core/ordering/kept_shards.py",
        old=(
            "        if keeper is None or not self.has_looked_since(self._taken_at[shard]):\n"
            "            return NOTHING_MS\n"
        ),
        new="        if keeper is None:\n            return self.looked_ms\n",
        breaks="who holds a partition sends tasks of a key that another instance may be sending from another one",
        tests=(
            "tests/unit/test_key_shards.py::test_who_does_not_keep_the_shard_sends_nothing_of_it",
            "tests/unit/test_key_shards.py::test_only_a_look_that_began_when_the_register_was_taken_counts",
        ),
    ),
    Mutant(
        name="key-shard-in-part",
        guarantee="G21",
        file="timerd/services/holding/read_through.py",
        old="            known_ms = min([known_ms, *unheld, *(machine.ordered_from_ms(scope) for machine in held)])\n",
        new="            known_ms = min([known_ms, *(machine.ordered_from_ms(scope) for machine in held)])\n",
        breaks="a task of a key starts while an older bucket of its key shard is with another instance",
        tests=(
            "tests/unit/test_key_shards.py"
            "::test_a_partition_that_another_instance_holds_keeps_back_all_that_comes_after_it",
        ),
    ),
    Mutant(
        name="backlog-closes-with-its-shard",
        guarantee="G21",
        file="timerd/services/holding/finishing.py",
        old="    unfinished = {entry.bucket_ms for entry in catalogue if not entry.finished}\n",
        new="    unfinished: set[int] = set()\n",
        breaks="a parked task finds its backlog closed, is written again, and comes behind a later one of its key",
        tests=(
            "tests/services/test_finishing.py::test_a_backlog_stays_open_until_the_last_shard_of_its_home_is_finished",
        ),
    ),
    Mutant(
        name="left-by-a-redrive-is-over",
        guarantee="G21",
        file="timerd/core/ordering/order_keys.py",
        old="if how not in _LEFT and (halt := ",
        new="if (halt := ",
        breaks="two tries of a redrive: the row of the one that failed ends, and others of the key go before the task",
        tests=("tests/unit/test_halting_in_cluster.py::test_a_row_that_a_redrive_has_left_is_not_the_end_of_its_task",),
    ),
    Mutant(
        name="living-ones-wait-for-each-other",
        guarantee="G21",
        file="timerd/core/ordering/halts.py",
        old="_digest(halt) == digest or self._is_behind(halt, place) for",
        new="_digest(halt) == digest for",
        breaks="of two tasks that were redriven to their places none is sent, for each waits for the other",
        tests=(
            "tests/unit/test_halting_in_cluster.py"
            "::test_of_two_that_live_again_the_first_one_goes_and_neither_waits_for_the_other",
        ),
    ),
    Mutant(
        name="place-of-the-living-unlooked-for",
        guarantee="G21",
        file="timerd/services/holding/halting.py",
        old="        self._keys.halts.revive(halt, NO_GENERATION, self._keys.place_of(halt))\n",
        new="        self._keys.halts.revive(halt, NO_GENERATION)\n",
        breaks="a note that is read after its row was met keeps back what stands before that, which keeps it back",
        tests=(
            "tests/unit/test_halting_in_cluster.py"
            "::test_of_two_that_live_again_the_first_one_goes_and_neither_waits_for_the_other",
        ),
    ),
    Mutant(
        name="note-of-the-task",
        guarantee="G21",
        file="timerd/model/halts.py",
        old='of_key + f"{self.task_id.hex()}\\0{self.generation}".encode()',
        new='of_key + f"{self.task_id.hex()}\\0" "0".encode()',
        breaks="who was slow to skip a dead letter lets the key go on past a later one of the same task",
        tests=(
            "tests/unit/test_halting_in_cluster.py::test_who_removes_the_note_of_a_death_leaves_that_of_the_next_one",
        ),
    ),
    Mutant(
        name="late-one-beside-a-lease",
        guarantee="G21",
        file="timerd/core/ordering/order_keys.py",
        old="        entry = NOTHING_MS if is_with_worker else position_ms, filed.seq, self.number(), filed\n",
        new="        entry = position_ms, filed.seq, self.number(), filed\n",
        breaks="a task that came late starts beside one of its key that a worker has since before a hand-over",
        tests=(
            "tests/unit/test_key_shards.py"
            "::test_what_a_worker_has_by_its_row_goes_before_a_task_that_came_late_and_stands_before_it",
        ),
    ),
    Mutant(
        name="key-above-closing",
        guarantee="G21",
        file="timerd/core/partition/partition_machine.py",
        old="            return min(from_ms, self._sweep.scanned_ms)\n",
        new="            return from_ms\n",
        breaks="a task of a key starts before one that another instance has stored and that comes before it",
        tests=(
            "tests/unit/test_key_shards.py"
            "::test_a_task_is_sent_when_closing_has_passed_it_and_the_catalogue_was_read_since",
        ),
    ),
    Mutant(
        name="key-by-an-old-look",
        guarantee="G21",
        file="timerd/core/ordering/key_gate.py",
        old="        return key.position_ms < sure_ms and self._keys.kept_shards.has_looked_since(filed.met_at)\n",
        new="        return key.position_ms < sure_ms\n",
        breaks="a bucket that was announced since is not looked into",
        tests=("tests/unit/test_key_shards.py::test_a_look_from_before_the_row_was_met_does_not_count",),
    ),
    Mutant(
        name="key-freed-by-others",
        guarantee="G21",
        file="timerd/core/ordering/order_keys.py",
        old="        if (until_ms := self._lease_of(filed.key)) is not None:\n",
        new="        if (until_ms := None) is not None:\n",
        breaks="an ack that another instance hears frees the key of a worker that has a later delivery",
        tests=("tests/unit/test_key_shards.py::test_a_key_waits_for_a_worker_whose_task_another_instance_has_ended",),
    ),
    Mutant(
        name="key-shard-for-ever",
        guarantee="G21",
        file="timerd/services/holding/key_keeping.py",
        old=(
            "        for shard in (*self._kept, *sorted(self._unheard)):\n"
            "            if shard not in here and not self._is_placed_here(shard):\n"
        ),
        new=(
            "        for shard in self._kept:\n            if shard not in here and not self._is_placed_here(shard):\n"
        ),
        breaks="the register names an instance that lives and does not keep the shard: its keys stand still",
        tests=("tests/unit/test_key_keeping.py::test_a_shard_whose_register_was_left_unheard_is_left_again",),
    ),
    Mutant(
        name="owed-forgotten",
        guarantee="G21",
        file="timerd/core/ordering/kept_shards.py",
        old="max(keeper.from_ms, self.owed_ms(shard))",
        new="keeper.from_ms",
        breaks="a task of a key starts beside a worker whose delivery of one that is over was with it at a hand-over",
        tests=(
            "tests/unit/test_key_keeping.py"
            "::test_what_workers_have_of_tasks_that_are_over_keeps_a_shard_back_that_comes_again",
        ),
    ),
    Mutant(
        name="notes-of-others-unread",
        guarantee="G21",
        file="timerd/services/holding/scheduler.py",
        old="        await self.halting.look()\n",
        new="",
        breaks="a key that another instance has noted as standing still goes on, or stands still for ever",
        tests=(
            "tests/cluster/test_ordering_keys.py"
            "::test_a_key_stands_still_over_the_loss_of_its_keeper_until_any_instance_is_told_to_skip",
        ),
    ),
    Mutant(
        name="notes-before-the-partition",
        guarantee="G21",
        file="timerd/core/partition/partition_machine.py",
        old="            self._memory.order_keys.kept_shards.acquired(self.partition.shard)\n",
        new="            pass\n",
        breaks="the last holder of a partition notes a dead letter and hands over, and the keeper goes on past it",
        tests=(
            "tests/unit/test_halting_in_cluster.py::test_a_look_from_before_a_partition_was_taken_over_does_not_count",
        ),
    ),
    Mutant(
        name="another-redrives-for-ever",
        guarantee="G21",
        file="timerd/core/ordering/order_keys.py",
        old="self.halts.met(filed.line.queue, filed.line.ordering_key, filed.key, place, revives=revives)\n",
        new="pass\n",
        breaks="a key stands still after the task has ended that another instance has redriven",
        tests=(
            "tests/unit/test_halting_in_cluster.py"
            "::test_a_task_that_another_instance_has_redriven_lets_its_key_go_when_it_ends",
        ),
    ),
    Mutant(
        name="older-release-gets-keys",
        guarantee="G21",
        file="timerd/services/holding/hand_over.py",
        old="        own = OF_KEYS if partition.is_of_keys else NOTHING\n",
        new="        own = NOTHING\n",
        breaks="a key shard is placed with an instance that knows nothing of it, and its tasks wait while it lives",
        tests=(
            "tests/cluster/test_ordering_keys.py"
            "::test_an_instance_of_an_older_release_has_keys_refused_before_anything_is_written",
        ),
    ),
    Mutant(
        name="hands-unknown",
        guarantee="G21",
        file="timerd/services/holding/read_through.py",
        old=" or not self._knows_hands(shard, known_ms):\n",
        new=":\n",
        breaks="a task that came late starts beside one of its key that another keeper has started from a later bucket",
        tests=(
            "tests/unit/test_key_shards.py::test_nothing_starts_before_it_is_known_what_is_in_hand_of_the_last_buckets",
        ),
    ),
    Mutant(
        name="reject-frees-the-key",
        guarantee="G21",
        file="timerd/core/dispatch/delivery_machine.py",
        old=(
            "                if self._older_ack is not None:\n"
            "                    tell_if_older(*found, said, self._older_ack)\n"
        ),
        new="",
        breaks="a reject by a worker from before a crash starts the next task beside the worker that has this one",
        tests=(
            "tests/unit/test_delivery_machine.py::"
            "test_who_has_it_from_before_a_crash_ends_it_and_the_one_that_was_sent_it_since_keeps_its_key",
        ),
    ),
)
