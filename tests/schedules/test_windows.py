"""How far ahead a tick records: what is near is recorded in windows that grow, so that of many schedules which begin at
one time the first instants of all are written before the later ones of any."""

from __future__ import annotations

import pytest

from tests.schedules.histories import START_MS, Periods
from timerd.core.schedules import planning
from timerd.core.schedules.world import World
from timerd.model.recurrence import Every, Spec
from timerd.model.schedules import CatchUp, Definition, Policies, Schedule, ScheduleState, Tick
from timerd.model.task import Template


def reached(period_ms: int, *, windows: int) -> list[tuple[int, int]]:
    """Of each window in turn, each as soon as its tick is due: (when it is recorded, up to where), in ms from now."""
    now_ms, times = START_MS, Periods(period_ms)
    definition = Definition(Spec((Every(period_ms),)), Policies(CatchUp.ALL), Template("default", "q"))
    entry = Schedule("00" * 8, 1, ScheduleState.ACTIVE, cur_ms=now_ms, since_ms=now_ms)
    found: list[tuple[int, int]] = []
    for number in range(windows):
        moment_ms = now_ms
        world = World(lambda: moment_ms, lambda prefix, bucket_ms: 0, lambda name, it: times, str, 86_400_000)  # noqa: B023
        before_ms = entry.cur_ms
        entry = planning.plan(entry, definition, times, world, Tick("default", "s", entry.uid, 1, number, ""))
        instants = [slot.instant_ms for slot in entry.ahead.slots][-entry.win :]
        assert instants == times.after(before_ms, entry.win)
        assert entry.ahead.next_ms == times.after(entry.cur_ms, 1)[0]
        found.append((now_ms - START_MS, entry.cur_ms - START_MS))
        now_ms = entry.tick[0]
    return found


def test_the_first_windows_of_what_is_near_are_short_and_grow() -> None:
    first, second, third, *later = reached(1_000, windows=6)
    assert first == (0, 8_000)
    assert second == (0, 35_000)
    assert third == (0, 143_000)
    at_ms, until_ms = zip(*later, strict=True)
    assert [each // 1_000 for each in until_ms] == [203, 263, 323]
    assert all(until - at >= planning.LEAD_MS for at, until in later)
    assert at_ms[0] > 0


@pytest.mark.parametrize("period_ms", [120_000, 3_600_000, 86_400_000])
def test_what_is_far_has_one_window_an_instant(period_ms: int) -> None:
    assert [until_ms for _, until_ms in reached(period_ms, windows=3)] == [period_ms, 2 * period_ms, 3 * period_ms]


@pytest.mark.parametrize("period_ms", [60_000, 3_600_000, 86_400_000])
def test_ticks_of_one_instant_each_are_due_together(period_ms: int) -> None:
    uids, next_ms = [f"{n << 56:016x}" for n in range(256)], START_MS + period_ms
    due_ms = [planning.tick_due_ms(uid, next_ms, period_ms) for uid in uids]
    assert not any(each % planning.TOGETHER_MS for each in due_ms)
    leads_ms = [planning.lead_ms(uid, period_ms) for uid in uids]
    assert all(lead <= next_ms - due < lead + planning.TOGETHER_MS for lead, due in zip(leads_ms, due_ms, strict=True))


def test_a_tick_of_a_window_is_due_at_its_own_time() -> None:
    next_ms = START_MS + 1_001
    assert planning.tick_due_ms("00" * 8, next_ms, 1_000) == next_ms - planning.lead_ms("00" * 8, 1_000)


def test_no_more_instants_are_computed_than_a_window_has_and_some() -> None:
    asked: list[int] = []

    class Counted(Periods):
        def after(self, instant_ms: int, count: int) -> list[int]:
            asked.append(count)
            return super().after(instant_ms, count)

    entry = Schedule("00" * 8, 1, ScheduleState.ACTIVE, cur_ms=START_MS + 122_000, since_ms=START_MS)
    definition = Definition(Spec((Every(1_000),)), Policies(CatchUp.ALL), Template("default", "q"))
    assert len(planning.outlook(entry, definition, Counted(1_000), START_MS).following) < 80
    assert sum(asked) < 120
