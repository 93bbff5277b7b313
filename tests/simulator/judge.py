"""Tells the history of a seed and judges it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulator.branches import answered, watched
from tests.simulator.checker import Checker
from tests.simulator.events import shown
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import Story, told
from tests.simulator.variants import VARIANTS
from tests.simulator.virtual_loop import Livelock
from timerd.services.background import unforeseen


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: sentences; none: every promise was kept."""

    seed: int
    variant: str
    wrong: tuple[str, ...]
    events: int
    hits: Counter[str]
    trace: tuple[str, ...] = ()
    form: str = ""
    once: bool = False

    @property
    def replay(self) -> str:
        variant = "" if self.variant == "correct" else f" --variant {self.variant}"
        once = " --once" if self.once else ""
        return f"python -m tests.simulator{self.form} --seed {self.seed}{variant}{once}"


def judged(seed: int, variant: str = "correct", *, traced: bool = False, once: bool = False) -> Verdict:
    """`once`: a history without repeats at a distance and tries that are held up."""
    with VARIANTS[variant](), sizes_of(seed), watched() as hits, noted() as errors:
        story = told(Story(seed, repeats=None if once else Repeats(seed)))
        answered(story.events)
        counted = hits + story.weather.hits
    checker = Checker(ordered=story.is_ordered)
    broken = checker.judge(story.events)
    counted["order judged"] += checker.judged_orders
    wrong = sentences(story, broken, errors)
    trace = tuple(trace_of(story, broken)) if traced else ()
    return Verdict(seed, variant, tuple(wrong), len(story.events), counted, trace, once=once)


@contextmanager
def noted() -> Iterator[Counter[str]]:
    """What met an error that no code expects: production notes it and goes on, a history is broken by it."""
    before, met = unforeseen.copy(), Counter[str]()
    yield met
    met.update(unforeseen - before)


def sentences(story: Story, broken: list[tuple[int, str]], errors: Counter[str]) -> list[str]:
    logged = [f"an error that production would only log: {error!r}" for error in story.errors]
    logged += [f"an error that nobody foresaw, in {work}: the log has it" for work in errors]
    if any(isinstance(error, Livelock) for error in story.errors):
        # Told to where it stopped: what was not delivered by then says nothing.
        return logged
    return [*(sentence for _, sentence in broken), *logged]


def trace_of(story: Story, broken: list[tuple[int, str]]) -> list[str]:
    """Times in ms since the beginning of the history."""
    lines = []
    for number, event in enumerate(story.events):
        lines.append(shown(event, story.begin_ms))
        lines += [f"{'':>14}*** {sentence}" for at, sentence in broken if at == number]
    return lines
