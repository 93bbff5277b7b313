"""What the recurrence computes beside what the definition says, over the windows of a zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tests.oracle.definition import Rules, instants
from tests.oracle.minutes import Window
from tests.oracle.random_specs import spec_of
from timerd.adapters.zones import zone
from timerd.core.recurrence import Recurrence, SpecError, recurrence


@dataclass
class Compared:
    """How much was looked at, and what differed."""

    expressions: int = 0
    windows: int = 0
    instants: int = 0
    refused: int = 0
    differences: Sequence[str] = ()

    def __add__(self, other: Compared) -> Compared:
        return Compared(
            self.expressions + other.expressions,
            self.windows + other.windows,
            self.instants + other.instants,
            self.refused + other.refused,
            [*self.differences, *other.differences],
        )


def compare(rules: Rules, name: str, over: Sequence[Window]) -> Compared:
    """One that is refused has a part or an exclusion without any instant, in all of these windows."""
    wanted = [instants(rules, window) for window in over]
    found = Compared(expressions=1, windows=len(over), instants=sum(map(len, wanted)))
    try:
        computed = recurrence(spec_of(rules, name), zone(name), b"oracle")
    except SpecError as error:
        right = _has_a_part_without_instants(rules, over)
        found.refused, found.differences = 1, [] if right else [f"{spec_of(rules, name)}: {error}"]
        return found
    differences: list[str] = []
    for window, expected in zip(over, wanted, strict=True):
        got = _inside(computed, window, len(expected) + 1)
        if got != (wanted_s := expected.tolist()):
            differences += _difference(rules, name, got, wanted_s)
    found.differences = differences
    return found


def _has_a_part_without_instants(rules: Rules, over: Sequence[Window]) -> bool:
    alone = [replace(rules, parts=[part]) for part in rules.parts]
    excluded = (any(each.names(window.walls).any() for window in over) for each in rules.exclude)
    return not all(any(len(instants(each, window)) for window in over) for each in alone) or not all(excluded)


def _inside(computed: Recurrence, window: Window, count: int) -> list[int]:
    """In seconds. None where too much is excluded to look for the next one."""
    try:
        found = computed.after(window.begin * 60_000 - 1, count)
    except SpecError:
        return []
    return [each // 1000 for each in found if each < window.end * 60_000]


def _difference(rules: Rules, name: str, got: Sequence[int], expected: Sequence[int]) -> Iterator[str]:
    for title, only in (("too many", set(got) - set(expected)), ("missing", set(expected) - set(got))):
        times = [datetime.fromtimestamp(each, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for each in sorted(only)[:4]]
        if times:
            yield f"{spec_of(rules, name)}: {title}: {times}"
