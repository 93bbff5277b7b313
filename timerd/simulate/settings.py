"""What is simulated. Times are seconds from its beginning."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from timerd.core.slots import CycleSlots, cycle
from timerd.model.errors import Invalid
from timerd.simulate.durations import durations

MAX_MEMBERS = 2_000_000
# They take about 1.3 GB of memory.
MAX_JOBS, MAX_TICKS = 10_000_000, 5_000_000
MAX_WORKERS = 100_000
MAX_SEED = 2**63 - 1


class Strategy(StrEnum):
    """Who decides when a member runs: the job before it (SELF), one loop that takes the member that ran longest ago
    (CENTRAL), its slot at the slot's beginning (SLOT), or its own moment within the slot (SLOT2)."""

    SELF = "self"
    CENTRAL = "central"
    SLOT = "slot"
    SLOT2 = "slot2"


@dataclass(frozen=True, slots=True)
class Dependency:
    """What members depend on, such as their bank. `share` of all members belong to it."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class Outage:
    """Jobs of the source that start in this time fail, after `attempt_s`; 0: after as long as they would have run."""

    source: str
    from_s: float
    to_s: float
    attempt_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Stop:
    """No worker starts a job in this time, as while they are deployed or their database is away."""

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class Settings:
    # None: the instants of all jobs are given (arrivals.py).
    strategy: Strategy | None
    members: int
    cycle_s: float
    span_s: float
    workers: int
    mean_s: float
    p90_s: float
    # 0: what timerd.core.slots takes without a choice.
    slots: int = 0
    sources: tuple[Dependency, ...] = ()
    outages: tuple[Outage, ...] = ()
    stops: tuple[Stop, ...] = ()
    # The costs of members follow Zipf's law with this exponent; 0: all cost the same.
    zipf: float = 0.0
    # Of CENTRAL: how often it looks, and for how many at most; 0: what the workers do until it looks again.
    poll_s: float = 60.0
    batch: int = 0
    tick_s: float = 1.0
    seed: int = 1

    @property
    def cycle(self) -> CycleSlots:
        return cycle(round(self.cycle_s * 1_000), self.slots)

    @property
    def batch_size(self) -> int:
        return self.batch or max(1, round(self.workers * self.poll_s / self.mean_s))

    @property
    def ticks(self) -> int:
        return -int(-self.span_s // self.tick_s)

    @property
    def failing(self) -> frozenset[str]:
        """The sources that are down at some time."""
        return frozenset(each.source for each in self.outages)


def check(settings: Settings) -> None:
    """Raises Invalid for what cannot be simulated, before anything is."""
    _check_ranges(settings)
    durations(settings.mean_s, settings.p90_s)
    assert settings.cycle
    _check_size(settings)
    _check_sources(settings)
    for outage in settings.outages:
        _check_outage(outage, settings)
    for stop in settings.stops:
        _check_time("The workers stand still", stop.from_s, stop.to_s, settings.span_s)


def _check_ranges(settings: Settings) -> None:
    _check_numbers(
        ("The period", settings.cycle_s, 1, 366 * 86_400),
        ("The simulated time", settings.span_s, 1, 3_660 * 86_400),
        ("The time between two looks of central", settings.poll_s, 0.001, settings.cycle_s),
        ("A tick", settings.tick_s, 0.001, settings.span_s),
        unit=" s",
    )
    _check_numbers(
        ("The number of members", settings.members, 1, MAX_MEMBERS),
        ("The number of workers", settings.workers, 1, MAX_WORKERS),
        ("The batch of central", settings.batch, 0, MAX_MEMBERS),
        ("The exponent of Zipf's law", settings.zipf, 0, 3),
        ("The seed", settings.seed, 0, MAX_SEED),
    )


def _check_numbers(*told: tuple[str, float, float, float], unit: str = "") -> None:
    """(what, its value, at least, at most) of each."""
    for what, value, least, most in told:
        if not least <= value <= most:
            raise Invalid(f"{what} is {value:,}{unit}: it must be from {least:,} to {most:,}{unit}.", "settings")


def _check_size(settings: Settings) -> None:
    jobs = settings.members * settings.span_s / settings.cycle_s + _tries(settings)
    _check_count("jobs", jobs, MAX_JOBS, "fewer members")
    _check_count("ticks", settings.span_s / settings.tick_s, MAX_TICKS, "longer ones")
    if settings.strategy is Strategy.CENTRAL:
        _check_count("looks of central", settings.span_s / settings.poll_s, MAX_TICKS, "more time between them")


def _tries(settings: Settings) -> float:
    """That fail, at most: CENTRAL may fill each batch with them while a source is down."""
    if settings.strategy is not Strategy.CENTRAL:
        return 0.0
    down_s = sum(min(each.to_s, settings.span_s) - each.from_s for each in settings.outages)
    return max(0.0, down_s) / settings.poll_s * min(settings.batch_size, settings.members)


def _check_count(what: str, count: float, most: int, instead: str) -> None:
    if count > most:
        raise Invalid(
            f"There would be about {count:,.0f} {what}: at most {most:,} are. Take {instead} or a shorter span.", what
        )


def _check_sources(settings: Settings) -> None:
    names = [each.name for each in settings.sources]
    if len(set(names)) < len(names):
        raise Invalid("A source is named twice: give each one once, with its share.", "sources")
    shares = [each.share for each in settings.sources]
    if not all(0 < share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
        raise Invalid(
            "The shares of sources are above 0% and at most 100% together; what is left has no source.", "sources"
        )


def _check_outage(outage: Outage, settings: Settings) -> None:
    if outage.source not in {each.name for each in settings.sources}:
        raise Invalid(
            f"There is no source {outage.source!r} that could be down: name it and its share first.", "outages"
        )
    if not 0 <= outage.attempt_s <= settings.span_s:
        raise Invalid(
            f"A try takes {outage.attempt_s:,} s to fail: it must be from 0 to {settings.span_s:,} s.", "outages"
        )
    _check_time(f"{outage.source!r} is down", outage.from_s, outage.to_s, settings.span_s)


def _check_time(what: str, from_s: float, to_s: float, span_s: float) -> None:
    if not 0 <= from_s < to_s:
        raise Invalid(f"{what} from {from_s:,} s to {to_s:,} s: the end must be later than the beginning.", "times")
    if from_s >= span_s:
        raise Invalid(f"{what} from {from_s:,} s on, but only {span_s:,} s are simulated.", "times")
