"""All measures, in the order in which they are told. Each is a module with a title, a reason and `run`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import ModuleType

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.measures import backlog, bulk, cancel, disk, fire, lateness, memory, single


@dataclass(frozen=True, slots=True)
class Measure:
    """`text` is what is measured and why, for the documents."""

    name: str
    title: str
    text: str
    run: Callable[[Bench], Awaitable[list[Figure]]]


def _measure(module: ModuleType) -> Measure:
    name = module.__name__.rpartition(".")[2]
    return Measure(name, module.TITLE, (module.__doc__ or "").strip(), module.run)


MEASURES = {m.name: m for m in map(_measure, (bulk, single, fire, lateness, memory, disk, backlog, cancel))}
