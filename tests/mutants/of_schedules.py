"""What comes again: S1 to S4."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

HISTORIES = "tests/schedules/test_histories.py::test_each_instant_comes_once"
STORY = "tests/schedules/test_story.py"
CHAIN, CHANGES = "timerd/core/schedules/chain.py", "timerd/core/schedules/changes.py"
PLANNING = "timerd/core/schedules/planning.py"

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
