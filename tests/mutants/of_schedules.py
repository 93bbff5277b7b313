"""What comes again: S1 to S5."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HISTORIES = "tests/schedules/test_histories.py::test_each_instant_comes_once"
APART = "tests/schedules/test_histories.py::test_no_two_are_open_at_once"
STORY = "tests/schedules/test_story.py"
OVERLAP = "tests/schedules/test_overlap.py"
CHAIN, CHANGES = "timerd/core/schedules/chain.py", "timerd/core/schedules/changes.py"
PLANNING = "timerd/core/schedules/planning.py"
BACKFILL = "tests/schedules/test_backfill.py"

MUTANTS = (
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
        name="trigger-beside-what-is-open",
        guarantee="S5",
        file="timerd/core/schedules/triggering.py",
        old="        if looked.overlap.open is not None and definition.policies.overlap is not Overlap.REPLACE:\n",
        new="        if looked.overlap.open is not None and definition.policies.overlap is Overlap.ALLOW:\n",
        breaks="a trigger cancels the task that is open, whatever the policy says, and makes one beside it",
        tests=(f"{OVERLAP}::test_a_trigger_is_one_of_them",),
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
)
