"""The full bucket: from when until when it is loaded and sealed, told by looks at a server that is none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.bench import Loader, Span
from benchmarks.child import Answer
from benchmarks.figures import BenchmarkFailed, TooBusy
from benchmarks.measures import full_bucket
from benchmarks.measures.full_bucket import BUCKET_MS, LET_GO_MS, LOAD_MS, SEAL_MS, Part, Plan
from benchmarks.processes import Child

# Far enough from now that no task of the bucket is ever due.
BEGINS_MS = 4_000_000_000_000
LOAD_FROM_MS = 1_000_000
COUNT = 100
PLAN = Plan(Span(BEGINS_MS, BUCKET_MS), Span(LOAD_FROM_MS, LOAD_MS), Span(BEGINS_MS + BUCKET_MS, SEAL_MS))


@dataclass
class Looks(Child):
    """A load generator whose looks take a second each, and find these."""

    found: list[Mapping[str, Any]]
    at_s: float = LOAD_FROM_MS / 1e3 + 1
    slept_s: list[float] = field(default_factory=list)

    async def ask(self, do: str, **arguments: object) -> Answer:
        assert (do, arguments) == ("bucket", {"at_ms": BEGINS_MS})
        self.at_s += 1
        return dict(self.found.pop(0))

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)

    def time(self) -> float:
        return self.at_s

    monotonic = time


def looks(monkeypatch: pytest.MonkeyPatch, *found: Mapping[str, Any]) -> Loader:
    """Its clock is that of the measure too."""
    child = Looks(list(found))
    monkeypatch.setattr(full_bucket, "time", child)
    monkeypatch.setattr(asyncio, "sleep", child.sleep)
    return Loader(child)


def seen(waiting: int | None) -> Mapping[str, Any]:
    """None: nobody holds the bucket."""
    return {"held": waiting is not None, "waiting": waiting or 0, "finished_ms": 0}


def load(loader: Loader) -> Part:
    return asyncio.run(full_bucket._load(loader, COUNT, PLAN))


def test_a_load_counts_from_before_its_first_page(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = looks(monkeypatch, *map(seen, (None, None, 0, 0, 60, COUNT)))
    # The second look begins a second after the first, and the sixth ends at the seventh.
    assert load(loader) == Part(LOAD_FROM_MS + 2_000, LOAD_FROM_MS + 7_000)


def test_a_load_that_nobody_saw_begin_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooBusy, match=r"^The bucket was being loaded before anybody looked\.$"):
        load(looks(monkeypatch, seen(0), seen(COUNT)))


def test_a_load_without_tasks_beside_it_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = [None] * (LOAD_MS // 1_000 + 1)
    with pytest.raises(TooBusy, match=r"^The load ended 43 s after the other queue's first task\.$"):
        load(looks(monkeypatch, *map(seen, (*looked, COUNT))))


def sealed(loader: Loader) -> Part:
    return asyncio.run(full_bucket._sealed(loader, PLAN))


def finished(after_ms: int) -> Mapping[str, Any]:
    return {"held": True, "waiting": 0, "finished_ms": BEGINS_MS + BUCKET_MS + after_ms}


def test_a_seal_is_from_the_end_of_the_bucket_until_it_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    ends_ms = BEGINS_MS + BUCKET_MS
    assert sealed(looks(monkeypatch, seen(0), finished(3_000))) == Part(ends_ms, ends_ms + 3_000 + LET_GO_MS)


def test_a_seal_without_tasks_beside_it_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchmarkFailed, match=r"^The bucket was finished 30 s after its end\.$"):
        sealed(looks(monkeypatch, finished(SEAL_MS)))
