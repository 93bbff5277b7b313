"""What comes again: S1 to S7."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HISTORIES = "tests/schedules/test_histories.py::test_each_instant_comes_once"
APART = "tests/schedules/test_histories.py::test_no_two_are_open_at_once"
TOGETHER = "tests/schedules/test_together_histories.py::test_each_instant_of_each_comes_once"
STORY = "tests/schedules/test_story.py"
TICKS = "tests/schedules/test_ticks_together.py"
OVERLAP = "tests/schedules/test_overlap.py"
MESSAGE_PLACE = "tests/unit/test_message_place.py"
CHAIN, CHANGES = "timerd/core/schedules/chain.py", "timerd/core/schedules/changes.py"
PLANNING = "timerd/core/schedules/planning.py"
TICKING_MANY = "timerd/core/schedules/ticking_many.py"
RECORDING_MANY = "timerd/core/schedules/recording_many.py"
DECIDING_MANY = "timerd/core/schedules/deciding_many.py"
DECIDED = "tests/schedules/test_together_histories.py::test_no_two_of_one_are_open_at_once"
SWEEP = "tests/schedules/test_zones.py"
SWEEPING, ZONES = "timerd/core/schedules/sweeping.py", "timerd/core/schedules/zones.py"
CYCLES = "tests/cycles/test_story.py"
ROSTERS = "tests/cycles/test_histories.py::test_each_member_has_its_turn_once"
ROSTER = "timerd/core/schedules/roster.py"
BACKFILL = "tests/schedules/test_backfill.py"
WITHDRAWALS = "tests/unit/test_withdrawals.py"

MUTANTS = (
    Mutant(
        name="limit-not-of-now",
        guarantee="S2",
        file=CHAIN,
        old="    return max(0, definition.policies.max_count - created)\n",
        new="    return entry.remaining + entry.created - created\n",
        breaks="a limit that an update lowers below what was recorded ahead lets some of it come all the same",
        tests=(f"{STORY}::test_a_limit_that_is_lowered_holds",),
    ),
    Mutant(
        name="trigger-known-while-it-is-open",
        guarantee="S2",
        file="timerd/model/overlap.py",
        old="        known = self.triggered if self.open is None else (*self.triggered, self.open)\n",
        new="        known = () if self.open is None else (self.open,)\n",
        breaks="a trigger whose caller was not answered has another id, and a second task, when another one is open",
        tests=(f"{OVERLAP}::test_a_trigger_that_is_asked_for_again_is_the_same_task_when_another_one_is_open",),
    ),
    Mutant(
        name="over-before-the-next-fires",
        guarantee="S1",
        file="timerd/core/schedules/occurrences.py",
        old="        return recorded.slots[number + 1].fire_at_ms\n",
        new="        return recorded.slots[number + 1].instant_ms\n",
        breaks="a task whose jitter takes it to just before the next instant expires before it can be delivered",
        tests=(f"{STORY}::test_a_task_that_its_jitter_delays_has_its_time_until_the_next_one_fires",),
    ),
    Mutant(
        name="window-left-incomplete",
        guarantee="S1",
        file=CHAIN,
        old="            yield from complete(tick.namespace, tick.schedule_id, entry, definition, world)\n"
        "            return Ticked.REPEATED\n",
        new="            return Ticked.REPEATED\n",
        breaks="an instance dies between the record and the rows, and they are never written",
        tests=(HISTORIES,),
    ),
    Mutant(
        name="refused-among-many",
        guarantee="S2",
        file=RECORDING_MANY,
        old="    applied = [each for each, result in said if result.status is CasStatus.APPLIED]\n",
        new="    applied = [each for each, _ in said]\n",
        breaks="a record of many that was refused has its rows written, beside those of the record that stands",
        tests=(TOGETHER,),
    ),
    Mutant(
        name="next-ticks-before-the-rows",
        guarantee="S1",
        file=RECORDING_MANY,
        old="    for rows in _in_parts(applied):\n"
        "        yield from place_rows(rows, world)\n"
        "    yield from place_rows([_next_tick(each) for each in applied if each.entry.tick], world)\n",
        new="    yield from place_rows([_next_tick(each) for each in applied if each.entry.tick], world)\n"
        "    for rows in _in_parts(applied):\n"
        "        yield from place_rows(rows, world)\n",
        breaks="an instance dies between the two, the next ticks record on, and the rows are never written",
        tests=(f"{TICKS}::test_the_rows_of_a_window_are_placed_before_the_ticks_that_record_on",),
    ),
    Mutant(
        name="window-before-taken-for-done",
        guarantee="S1",
        file=TICKING_MANY,
        old=" and entry.seq == tick.number\n",
        new="\n",
        breaks="a tick that comes again among many records a window anew, and the one before is never completed",
        tests=(TOGETHER,),
    ),
    Mutant(
        name="next-old-instant-waited-for",
        guarantee="S1",
        file=CHANGES,
        old="    reached_ms = min(later[0].instant_ms - 1, now_ms) if later else entry.cur_ms\n",
        new="    reached_ms = later[0].instant_ms - 1 if later else entry.cur_ms\n",
        breaks="an update to a shorter period loses what comes before the next instant of the longer one",
        tests=(
            HISTORIES,
            f"{STORY}::test_an_update_to_a_shorter_period_loses_nothing_before_the_next_instant_of_the_longer_one",
        ),
    ),
    Mutant(
        name="counted-when-done",
        guarantee="S1",
        file=PLANNING,
        old="    if not entry.remaining:\n"
        '        return replace(entry, seq=entry.seq + 1, win=0, error="", tick=(), state=ScheduleState.DONE)\n',
        new="",
        breaks="a schedule that had all its tasks counts each later instant as missed, after a pause",
        tests=(f"{STORY}::test_one_that_is_done_is_changed_and_deleted_as_every_other_one",),
    ),
    Mutant(
        name="done-and-stuck",
        guarantee="S3",
        file=PLANNING,
        old="    nexts = [*chosen[1:], next_ms or LAST_MS][: len(chosen)]\n",
        new="    nexts = [*chosen[1:], next_ms or LAST_MS]\n",
        breaks="a schedule that is done and was changed fails for ever",
        tests=(f"{STORY}::test_one_that_is_done_is_changed_and_deleted_as_every_other_one",),
    ),
    Mutant(
        name="missed-not-counted",
        guarantee="S1",
        file=PLANNING,
        old="        missed=entry.missed + missed,\n        remaining=remaining,\n",
        new="        remaining=remaining,\n",
        breaks="instants of an outage are in no count",
        tests=(f"{STORY}::test_after_an_outage_the_last_instant_is_caught_up",),
    ),
    Mutant(
        name="ahead-forgotten-at-a-change",
        guarantee="S2",
        file=CHANGES,
        old="        left=entry.ahead,\n",
        new="",
        breaks="what the old revision had created ahead fires beside the new one",
        tests=(HISTORIES, f"{STORY}::test_an_update_takes_effect_at_one_moment"),
    ),
    Mutant(
        name="taken-not-noted",
        guarantee="S2",
        file=CHAIN,
        old="        taken=tuple(sorted({*entry.taken, *taken})),\n",
        new="",
        breaks="an instant that the old revision has started is created once more by the new one",
        tests=(HISTORIES,),
    ),
    Mutant(
        name="withdrawn-by-what-is-said-of-another",
        guarantee="S2",
        file="timerd/core/protocol/joined_procedures.py",
        old="        return [[next(rows[request.partition]) for _ in request.keys] for request in requests]\n",
        new="        each = iter([one for part in found for one in part])\n"
        "        return [[next(each) for _ in request.keys] for request in requests]\n",
        breaks="of tasks in several buckets that are withdrawn together, each goes by the marks of another one",
        tests=(f"{WITHDRAWALS}::test_rows_of_several_partitions_are_found_at_one_time_and_each_hears_of_its_own",),
    ),
    Mutant(
        name="started-although-another-withdrew-it",
        guarantee="S1",
        file="timerd/core/protocol/move.py",
        old="    if not decided:\n        # Also where",
        new="    if free and not decided:\n        # Also where",
        breaks="of two who wind up a schedule at once one says of what the other has withdrawn that it had started",
        tests=(f"{WITHDRAWALS}::test_what_another_try_has_withdrawn_meanwhile_has_not_started",),
    ),
    Mutant(
        name="later-place-not-asked-for",
        guarantee="S2",
        file="timerd/core/protocol/move.py",
        old="    return stored is not None and Instants.from_bytes(stored)",
        new="    return stored is not None and Instants()",
        breaks="what is withdrawn at its first place fires at a later one, where its writer is about to write it",
        tests=(f"{WITHDRAWALS}::test_what_is_about_to_have_a_later_place_counts_as_started",),
    ),
    Mutant(
        name="written-again-although-withdrawn",
        guarantee="S2",
        file="timerd/core/protocol/message_place.py",
        old="        left = yield from _not_moved(left)\n",
        new="        pass\n",
        breaks="what is withdrawn fires at a later place, where a writer who stood still writes it",
        tests=(
            f"{WITHDRAWALS}::test_what_is_withdrawn_has_no_later_place_whoever_wrote_it_and_stood_still",
            f"{WITHDRAWALS}::test_while_it_is_withdrawn_its_writer_comes_again",
        ),
    ),
    Mutant(
        name="withdrawn-up-to-the-first-that-fails",
        guarantee="S3",
        file="timerd/core/protocol/joined_procedures.py",
        old="                for lane in group:\n                    lane.fail(error)\n",
        new="                raise\n",
        breaks="an answer that is missing of one task ends the withdrawal of all others in the midst of their steps",
        tests=(f"{WITHDRAWALS}::test_what_fails_has_failed_for_all_who_asked_and_the_others_go_on",),
    ),
    Mutant(
        name="backfill-withdraws-its-last-window-alone",
        guarantee="S2",
        file="timerd/core/schedules/backfill.py",
        old="    slots = list(enumerate(entry.ahead.slots))\n",
        new="    slots = list(entry.window)\n",
        breaks="tasks of the window before come after the cancel of a backfill",
        tests=(f"{BACKFILL}::test_a_cancel_ends_it_and_what_had_not_started_never_comes",),
    ),
    Mutant(
        name="first-tick-just-ends",
        guarantee="S3",
        file=CHAIN,
        old="            if (yield from _void(key, entry, stored, tick, world)):\n"
        "                return Ticked.VOID\n"
        "            continue\n",
        new="            return Ticked.VOID\n",
        breaks="a schedule is ACTIVE and no tick lives",
        tests=(HISTORIES,),
    ),
    Mutant(
        name="answered-before-wound-up",
        guarantee="S3",
        file=CHANGES,
        old="        if entry.left.slots:\n"
        "            yield from wind_up(name.namespace, name.schedule_id, entry, stored, world)\n"
        "            continue\n"
        "        if request in entry.requests:\n"
        "            return entry\n",
        new="        if request in entry.requests:\n"
        "            return entry\n"
        "        if entry.left.slots:\n"
        "            yield from wind_up(name.namespace, name.schedule_id, entry, stored, world)\n"
        "            continue\n",
        breaks="after the OK of a pause a task of the schedule starts",
        tests=(HISTORIES,),
    ),
    Mutant(
        name="late-by-the-lead",
        guarantee="S4",
        file=PLANNING,
        old="    place_ms = max(fire_at_ms, world.now_ms())\n",
        new="    place_ms = max(fire_at_ms, world.now_ms() + LEAD_MS)\n",
        breaks="instants depend on when they were looked at",
        tests=(f"{STORY}::test_every_second_is_exact",),
    ),
    Mutant(
        name="end-that-a-crash-takes-back",
        guarantee="S5",
        file="timerd/core/schedules/opened.py",
        old="    here = yield from locate(opened.task, durable=True)\n    if here.rows is None:\n",
        new="    here = yield from locate(opened.task)\n    if here.rows is None:\n",
        breaks="an ack that is not durable lets the next task begin, and a crash brings the first one back beside it",
        tests=(APART,),
    ),
    Mutant(
        name="followed-before-a-worker-is-back",
        guarantee="S5",
        file="timerd/core/schedules/opened.py",
        old="    if outcome in BY_CALL and (yield from _may_return(here.place, world)):\n"
        "        return False, outcome\n",
        new="",
        breaks="after a crash the next task begins beside a cancelled one, whose worker has yet to come back",
        tests=(f"{APART}_though_a_holder_is_gone_that_knew_who_had_one",),
    ),
    Mutant(
        name="trigger-beside-what-is-open",
        guarantee="S5",
        file="timerd/core/schedules/triggering.py",
        old="        if looked.overlap.open is not None and definition.policies.overlap is not Overlap.REPLACE:\n",
        new="        if looked.overlap.open is not None and definition.policies.overlap is Overlap.ALLOW:\n",
        breaks="a trigger cancels the task that is open, whatever the policy says, and makes one beside it",
        tests=(f"{OVERLAP}::test_a_trigger_is_one_of_them",),
    ),
    Mutant(
        name="another-id-where-it-is-late",
        guarantee="S5",
        file="timerd/core/schedules/occurrences.py",
        old="    return replace(extra, home_position_ms=place_ms, home_shard=shard)\n",
        new="    return extra\n",
        breaks="a task that is recorded as the open one is delivered under another id, where its row came too late",
        tests=(f"{MESSAGE_PLACE}::test_a_task_whose_id_is_told_first_keeps_it_where_its_row_comes_too_late",),
    ),
    Mutant(
        name="open-where-it-was-never-written",
        guarantee="S5",
        file="timerd/core/protocol/lookup.py",
        old="    for later_ms in Instants.from_bytes(stored).later_ms if stored is not None else ():\n",
        new="    for later_ms in ():\n",
        breaks="the open task is looked for only where it was too late to write it, and its schedule waits for days",
        tests=(f"{MESSAGE_PLACE}::test_so_is_one_found_whose_first_place_does_not_point_on",),
    ),
    Mutant(
        name="nowhere-after-a-place-without-a-row",
        guarantee="S5",
        file="timerd/core/protocol/lookup.py",
        old="        if rows is None and forward is not None:\n",
        new="        if False:\n",
        breaks="the open task is cancelled where its row was never written, and the next one comes beside it",
        tests=(
            "tests/unit/test_named_before_written.py::test_a_task_is_found_although_its_row_was_never_written_at_a_place_on_the_way",
        ),
    ),
    Mutant(
        name="passed-over-before-its-time",
        guarantee="S5",
        file="timerd/core/schedules/overlap.py",
        old="        return [each for each, next_ms in pairs if self._fire_ms(entry, each, next_ms) <= self._now_ms]\n",
        new="        return [each for each, _ in pairs]\n",
        breaks="an instant is skipped although the task before has ended by its time",
        tests=(APART, f"{OVERLAP}::test_skip_passes_over_what_comes_while_one_is_open"),
    ),
    Mutant(
        name="decided-by-a-later-clock",
        guarantee="S5",
        file=DECIDING_MANY,
        old="    looked = yield from side_by_side(looking)\n",
        new="    looked = yield from side_by_side(looking)\n    now = world.at_one_moment()\n",
        breaks="time passes while many are looked at, and an instant is passed over whose time had not come",
        tests=(f"{TICKS}::test_the_clock_that_decides_is_read_before_any_look",),
    ),
    Mutant(
        name="written-before-the-cancel",
        guarantee="S5",
        file=DECIDING_MANY,
        old="    finished = yield from _finished(applied, world)\n    yield from complete_many(finished, world)\n",
        new="    yield from complete_many(applied, world)\n    finished = yield from _finished(applied, world)\n",
        breaks="what replaces the tasks of many schedules is written beside them",
        tests=(DECIDED,),
    ),
    Mutant(
        name="uncancelled-taken-for-done",
        guarantee="S5",
        file=DECIDING_MANY,
        old=" if not isinstance(ended, Exception)]\n",
        new="]\n",
        breaks="a task that could not be cancelled goes on beside the one that replaces it",
        tests=(f"{TICKS}::test_one_whose_task_cannot_be_cancelled_is_completed_by_itself",),
    ),
    Mutant(
        name="asked-together-not-for-good",
        guarantee="S5",
        file="timerd/core/protocol/joined_procedures.py",
        old="FindSettledEach(*each, durable)",
        new="FindSettledEach(*each)",
        breaks="of many that are asked for at once, an end counts that a crash takes back",
        tests=(DECIDED,),
    ),
    Mutant(
        name="ends-together-not-waited-for",
        guarantee="S5",
        file="timerd/services/holding/procedure_runner.py",
        old="        if any(is_unmarked) and not await self.own.until_durable(partition):\n",
        new="        if False:\n",
        breaks="an end is said while its record is on its way, and a crash takes it back",
        tests=("tests/services/test_asked_together.py::test_ends_are_said_when_no_crash_takes_them_back",),
    ),
    Mutant(
        name="skipped-not-counted",
        guarantee="S1",
        file="timerd/core/schedules/overlap.py",
        old="        return replace(state, skipped=state.skipped + 1, passed=state.passed + 1)\n",
        new="        return replace(state, passed=state.passed + 1)\n",
        breaks="instants that were passed over are in no count",
        tests=(APART, f"{OVERLAP}::test_skip_passes_over_what_comes_while_one_is_open"),
    ),
    Mutant(
        name="schedule-created-again",
        guarantee="G2",
        file="timerd/services/schedules/schedule_calls.py",
        old='            "CreateSchedule": self._once(self.create, wire.CreateScheduleResponse),\n',
        new='            "CreateSchedule": self.create,\n',
        breaks="a repeat of Create brings back a schedule that was deleted since",
        tests=(
            "tests/schedules/test_story.py"
            "::test_a_call_that_comes_again_is_answered_as_the_first_time_whatever_was_done_since",
        ),
    ),
    Mutant(
        name="computed-by-other-data",
        guarantee="S4",
        file=ZONES,
        old="        if known is None or not self._agrees(known, zone):\n            raise differ(self, zone)\n",
        new="        assert known is not None\n",
        breaks="an instance with an older tzdata records instants that the newer one has moved",
        tests=(f"{SWEEP}::test_a_creation_by_old_data_that_the_sweep_meets_fails_and_is_refused",),
    ),
    Mutant(
        name="creation-passed-over-by-a-sweep",
        guarantee="S4",
        file=SWEEPING,
        old="            if (yield from _void(name, uid, entry, stored, world)):\n"
        "                return Swept.VOID\n"
        "            continue\n",
        new="            return Swept.VOID\n",
        breaks="a schedule that is created by an older tzdata, while the sweep goes by, keeps its instants",
        tests=(f"{SWEEP}::test_a_creation_by_old_data_that_the_sweep_meets_fails_and_is_refused",),
    ),
    Mutant(
        name="zone-of-an-update-not-announced",
        guarantee="S4",
        file=CHANGES,
        old="    if zone in (definition.spec.zone, entry.coming_zone, UTC):\n",
        new="    if zone:\n",
        breaks="a schedule that an older tzdata updates into the zone, while the sweep goes by, keeps its instants",
        tests=(f"{SWEEP}::test_an_update_into_the_zone_by_old_data_that_the_sweep_meets_fails_and_is_refused",),
    ),
    Mutant(
        name="sweep-ends-with-its-first-page",
        guarantee="S4",
        file=SWEEPING,
        old="        done = replace(known, armed=known.armed + armed)\n",
        new="        done = replace(known, armed=known.armed + armed, changed=())\n",
        breaks="schedules whose names come later keep the instants of the old data",
        tests=(f"{SWEEP}::test_a_sweep_that_dies_at_any_step_is_gone_on_with_and_arms_each_schedule_once",),
    ),
    Mutant(
        name="many-created-by-what-was-known",
        guarantee="S4",
        file="timerd/core/schedules/creating_many.py",
        old="[each.zone for each, _ in pairs], world.now_ms(), anew=True)",
        new="[each.zone for each, _ in pairs], world.now_ms())",
        breaks="schedules of a batch go by data that another instance has replaced, and no sweep comes to them",
        tests=(f"{SWEEP}::test_many_are_created_by_what_is_in_force_once_they_are_announced",),
    ),
    Mutant(
        name="backfill-by-other-data",
        guarantee="S4",
        file="timerd/core/schedules/backfill.py",
        old="    generation = yield from computed_by(world.zones, definition.spec.zone, generation, world.now_ms())\n",
        new="    yield from ()\n",
        breaks="a backfill has instants by data that are not in force",
        tests=("tests/cluster/test_zones.py::test_a_backfill_is_begun_by_the_release_in_force_alone",),
    ),
    Mutant(
        name="named-late-is-another-task",
        guarantee="S6",
        file="timerd/core/schedules/member_tasks.py",
        old='    rows["position_ms"] = rows["fire_at_ms"] = moments_ms\n',
        new='    rows["fire_at_ms"] = moments_ms\n    rows["position_ms"] = np.maximum(moments_ms, now_ms)\n',
        breaks="a member that is named twice after its moment has two turns",
        tests=(f"{CYCLES}::test_who_is_named_too_late_has_its_turn_at_once",),
    ),
    Mutant(
        name="slot-of-any-key",
        guarantee="S6",
        file="timerd/core/schedules/member_tasks.py",
        old="    return slot_of(hash_of(key), shape.slots) == shape.slots_back(slot, place)\n",
        new="    return True\n",
        breaks="a database with another hash names members that are not in the slot, and nobody is told",
        tests=(f"{CYCLES}::test_a_key_outside_of_the_slot_is_refused_and_nothing_is_written",),
    ),
    Mutant(
        name="cycle-created-again",
        guarantee="S6",
        file="timerd/services/schedules/cycle_calls.py",
        old='            "CreateCycle": self._once(self.create, wire.CreateCycleResponse),\n',
        new='            "CreateCycle": self.create,\n',
        breaks="a repeat of Create brings back a cycle that was deleted since",
        tests=(f"{CYCLES}::test_a_call_that_comes_again_is_answered_as_the_first_time",),
    ),
    Mutant(
        name="kinds-of-one-name",
        guarantee="S6",
        file="timerd/core/schedules/member_tasks.py",
        old='        turn = f"{self.number}/{self.place}" if self.place else self.number\n',
        new="        turn = self.number\n",
        breaks="of the kinds of turns of one member only one comes, where two lie in one bucket",
        tests=(ROSTERS,),
    ),
    Mutant(
        name="roster-not-read-again",
        guarantee="S7",
        file=ROSTER,
        old="    current = yield from entries_of(uid, [key for _, key in due])\n",
        new="    current = {m.key: [RosterEntry(_entry('', m, 0).key, m.key, 0, m.payload)] for m in members}\n",
        breaks="a member that is removed beside a put starts after the OK of the removal",
        tests=(ROSTERS,),
    ),
    Mutant(
        name="record-not-read-by-a-put",
        guarantee="S7",
        file=ROSTER,
        old="    if not due:\n        return\n",
        new="    return\n",
        breaks="who is put while its slot is filled has no turn in it",
        tests=(
            ROSTERS,
            "tests/cycles/test_roster.py::test_who_is_put_while_its_slot_is_under_way_has_its_turn_in_it",
        ),
    ),
    Mutant(
        name="removed-but-not-withdrawn",
        guarantee="S7",
        file=ROSTER,
        old="    return [(roster.run(number), key) for key in known for number in",
        new="    return [(roster.run(number), key) for key in known[:0] for number in",
        breaks="a member whose task is there starts after the OK of its removal",
        tests=(
            ROSTERS,
            "tests/cycles/test_roster.py::test_who_is_removed_has_no_turn_any_more_also_where_its_task_is_there",
        ),
    ),
)
