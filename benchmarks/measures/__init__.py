"""All measures, in the order in which they are told. Each is a module with a title, a reason and `run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.measures import (
    abandoned,
    bulk,
    calls,
    cancel,
    disk,
    every_second,
    fairness,
    fire,
    full_bucket,
    growth,
    hot_minute,
    hot_second,
    lateness,
    many_queues,
    memory,
    ordering,
    page,
    receiving,
    recovery,
    rosters,
    schedule_instants,
    schedules,
    simulating,
    single,
    streams,
    sustained,
    watching,
    webhooks,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """`text` is what is measured and why, for the documents."""

    name: str
    title: str
    text: str
    run: Callable[[Bench], Awaitable[list[Figure]]]
    # Not in the ten minutes of `make bench`.
    long: bool


def _measure(module: ModuleType) -> Measure:
    name = module.__name__.rpartition(".")[2]
    return Measure(name, module.TITLE, (module.__doc__ or "").strip(), module.run, getattr(module, "LONG", False))


MEASURES = {
    m.name: m
    for m in map(
        _measure,
        (
            bulk,
            single,
            fire,
            lateness,
            memory,
            disk,
            cancel,
            recovery,
            watching,
            webhooks,
            streams,
            receiving,
            calls,
            ordering,
            fairness,
            page,
            hot_second,
            many_queues,
            growth,
            sustained,
            full_bucket,
            hot_minute,
            abandoned,
            schedules,
            schedule_instants,
            every_second,
            rosters,
            simulating,
        ),
    )
}
