"""Instants come from the spec and the zone, whatever ran when: S4."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

GAPS = "tests/core/recurrence/test_gaps_and_repeats.py"
ORACLE = "tests/oracle/test_recurrence.py::test_each_kind_of_change_is_as_defined"

MUTANTS = (
    Mutant(
        name="gap-policy-as-in-a-repeat",
        guarantee="S4",
        file="timerd/core/recurrence/wall_clock.py",
        old="            gap = Gap.SKIP if frequent else Gap.NEXT\n",
        new="            gap = Gap.NEXT if frequent else Gap.SKIP\n",
        breaks="a nightly job does not run on the day without its hour",
        tests=(f"{GAPS}::test_a_daily_time_within_the_gap", ORACLE),
    ),
    Mutant(
        name="repeated-hour-counts-once-for-all",
        guarantee="S4",
        file="timerd/core/recurrence/wall_clock.py",
        old="            repeat = Repeat.BOTH if frequent else Repeat.FIRST\n",
        new="            repeat = Repeat.FIRST\n",
        breaks="what comes every 15 minutes is silent for an hour in autumn",
        tests=(
            "tests/core/recurrence/test_when.py::test_a_frequent_job_keeps_its_pace_over_both_changes",
            f"{GAPS}::test_what_comes_every_so_often_leaves_the_gap_out_and_has_no_hole_in_the_repeat",
            ORACLE,
        ),
    ),
    Mutant(
        name="first-of-two-is-the-last",
        guarantee="S4",
        file="timerd/core/recurrence/wall_clock.py",
        old="        if self.repeat == Repeat.FIRST and before_ms > offset_ms:\n",
        new="        if self.repeat == Repeat.LAST and before_ms > offset_ms:\n",
        breaks="a nightly job runs twice in autumn, or not at all",
        tests=(f"{GAPS}::test_a_daily_time_that_comes_twice", ORACLE),
    ),
    Mutant(
        name="gap-moved-to-its-own-hour",
        guarantee="S4",
        file="timerd/core/recurrence/wall_clock.py",
        old="yield Named(period.start_ms if self.gap == Gap.NEXT else wall - period.before_ms, wall)",
        new="yield Named(wall - period.before_ms, wall)",
        breaks="times of a gap run within the hour after it, each by itself",
        tests=(f"{GAPS}::test_several_times_of_a_gap_become_one", f"{GAPS}::test_a_gap_of_half_an_hour", ORACLE),
    ),
    Mutant(
        name="period-after-a-repeat-passed-over",
        guarantee="S4",
        file="timerd/core/recurrence/wall_clock.py",
        old="times.next(period.end_ms + min(period.offset_ms, period.after_ms) - 1)",
        new="times.next(period.end_ms + period.offset_ms - 1)",
        breaks="what comes once a month within a repeated hour, and then as the last of two, is lost",
        tests=(f"{GAPS}::test_a_rare_time_that_comes_twice_is_not_passed_over",),
    ),
    Mutant(
        name="instants-of-two-parts-come-twice",
        guarantee="S4",
        file="timerd/core/recurrence/recurrence.py",
        old="        return (at_ms for at_ms, _ in groupby(each.at_ms for each in self.named_after(after_ms)))\n",
        new="        return (each.at_ms for each in self.named_after(after_ms))\n",
        breaks="an instant that two parts name, or two times of a gap, is there twice",
        tests=(
            "tests/core/recurrence/test_when.py::test_several_parts_are_one_schedule_and_what_they_share_comes_once",
            f"{GAPS}::test_several_times_of_a_gap_become_one",
        ),
    ),
    Mutant(
        name="jitter-beyond-the-next-one",
        guarantee="S4",
        file="timerd/core/recurrence/recurrence.py",
        old="None if next_ms is None else next_ms - 1 - instant_ms)",
        new="None if next_ms is None else self.spec.jitter_ms)",
        breaks="an occurrence comes after the next one",
        tests=(
            "tests/core/recurrence/test_when.py::"
            "test_jitter_is_a_function_of_schedule_and_instant_and_stays_before_the_next_one",
            "tests/core/recurrence/test_properties.py::test_a_jitter_keeps_the_order",
        ),
    ),
)
