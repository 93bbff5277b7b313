"""The instants of a spec, in order: the union of its parts, less what it excludes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache
from hashlib import blake2b
from heapq import merge
from itertools import groupby, islice, takewhile

from timerd.core.recurrence.calendars import calendar_times
from timerd.core.recurrence.covers import FOR_EVER_MS, Uncovered
from timerd.core.recurrence.cron import cron_times, is_hashed
from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.exclusions import Covers, covers_of
from timerd.core.recurrence.limits import check_limits
from timerd.core.recurrence.periods import periods
from timerd.core.recurrence.rules import rule_times
from timerd.core.recurrence.sources import Barred, InstantSource, Source, WallSource
from timerd.core.recurrence.times import listed
from timerd.core.recurrence.wall_clock import Named, WallClock, WallTimes
from timerd.model.recurrence import At, Calendar, Cron, Every, Jitter, Part, RRule, Spec


def jittered_ms(spec: Spec, uid: bytes, instant_ms: int, most_ms: int | None = None) -> int:
    """When an instant fires, whatever comes after it. `most_ms`: there is no room for more of its jitter."""
    most_ms = spec.jitter_ms if most_ms is None else min(spec.jitter_ms, most_ms)
    if most_ms <= 0:
        return instant_ms
    drawn = uid if spec.jitter == Jitter.FIXED else uid + instant_ms.to_bytes(8, "big", signed=True)
    chance = int.from_bytes(blake2b(drawn, digest_size=8, person=b"timerd.spread").digest(), "big")
    return instant_ms + (chance * (most_ms + 1) >> 64)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A spec that holds, joined with its zone. A pure function of both: a repeated question has the same answer."""

    spec: Spec
    zone: tzinfo
    sources: tuple[Source, ...]

    def after(self, instant_ms: int, count: int) -> list[int]:
        """The next instants strictly later than this one, ascending, from 1970 on; fewer than `count` where the
        schedule ends."""
        return list(islice(self.instants(instant_ms), count))

    def instants(self, after_ms: int) -> Iterator[int]:
        """As `after`, one by one: for who wants those up to some instant, and does not know how many they are."""
        return (at_ms for at_ms, _ in groupby(each.at_ms for each in self.named_after(after_ms)))

    def fire_at_ms(self, uid: bytes, instant_ms: int, next_ms: int | None) -> int:
        """When the occurrence fires: delayed by its jitter, and before the next one. A jitter that is longer than the
        gap is drawn from the gap, so that nothing gathers at its end."""
        return jittered_ms(self.spec, uid, instant_ms, None if next_ms is None else next_ms - 1 - instant_ms)

    def named_after(self, instant_ms: int) -> Iterator[Named]:
        """An instant comes once for each time that it is named by."""
        begin_ms, end_ms = max(instant_ms, self.spec.start_ms - 1, -1), self.spec.end_ms
        found = [source.after(begin_ms) for source in self.sources]
        union = found[0] if len(found) == 1 else merge(*found)
        return takewhile(lambda each: each.at_ms < end_ms, union) if end_ms else union


def recurrence(spec: Spec, zone: tzinfo, seed: bytes) -> Recurrence:
    """`seed` is the id of the schedule, from which `H` is chosen. Raises SpecError."""
    return _recurrence(spec, zone, seed if _depends_on_seed(spec) else b"")


def _depends_on_seed(spec: Spec) -> bool:
    return any(isinstance(form, Cron) and is_hashed(form.expression) for form in (*spec.parts, *spec.exclude))


@lru_cache(maxsize=1024)
def _recurrence(spec: Spec, zone: tzinfo, seed: bytes) -> Recurrence:
    """One for all schedules that say the same, as a million daily ones do."""
    check_limits(spec)
    builder = _SourceBuilder(spec, zone, seed, covers_of(spec.exclude, zone, seed))
    sources: list[Source] = []
    for place, part in enumerate(spec.parts):
        field = f"parts[{place}].{part.kind}"
        found = list(builder.sources(part, field))
        if spec.exclude and all(next(source.after(-1), None) is None for source in found):
            raise SpecError("exclude", f"The exclusions leave nothing of {field}: take back one, or the part.")
        sources += found
    return Recurrence(spec, zone, tuple(sources))


@dataclass(frozen=True, slots=True)
class _SourceBuilder:
    """Makes the sources of the parts of one spec."""

    spec: Spec
    zone: tzinfo
    seed: bytes
    covers: Covers

    def sources(self, part: Part, field: str) -> Iterator[Source]:
        """Raises SpecError."""
        match part:
            case Cron():
                yield self._by_wall_clock(cron_times(part.expression, f"{field}.expression", self.seed))
            case Calendar():
                yield self._by_wall_clock(calendar_times(part, field))
            case RRule():
                times, until_ms = rule_times(part.text, f"{field}.text")
                yield self._by_wall_clock(times, FOR_EVER_MS if until_ms is None else until_ms + 1)
            case Every():
                yield self._by_instants(periods(part, field))
            case At():
                walls, instants = listed(part, field)
                yield from [self._by_wall_clock(walls)] if walls.at_ms else []
                yield from [self._by_instants(instants)] if instants.at_ms else []

    def _by_wall_clock(self, times: WallTimes, end_ms: int = FOR_EVER_MS) -> Source:
        clock = WallClock.of(self.zone, self.spec.gap, self.spec.repeat, times.frequent)
        left = Uncovered(times, self.covers.walls) if self.covers.walls else times
        return self._unbarred(WallSource(clock, left, end_ms))

    def _by_instants(self, instants: WallTimes) -> Source:
        return self._unbarred(InstantSource(instants, self.zone, self.covers.walls))

    def _unbarred(self, source: Source) -> Source:
        return Barred(source, self.covers.instants) if self.covers.instants else source
