"""G14: after an outage the missed buckets are loaded at a bounded rate, and what is on time keeps its share: the order
of events under the simulator's time, in which a rate is exact."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import groupby
from types import SimpleNamespace
from typing import Any, cast

import timerd.services.holding.paging as paging_module
from tests.simulator.events import Delivered, Event, Wanted
from tests.simulator.forms import Form
from tests.simulator.story import Story, told
from timerd.adapters.memory import MemoryStore
from timerd.config import ServerConfig
from timerd.core.partition.holding import HoldingSettings
from timerd.model.partition import BUCKET_MS
from timerd.services.holding.throttle import Throttle

MISSED_BUCKETS, PAGES_A_BUCKET, PAGE_ROWS = 36, 6, 20
ROWS_PER_S = 400
ON_TIME, EVERY_MS = 80, 100
# As many as the rate lets in between two tasks that are on time, and one.
MOST_PAGES = ROWS_PER_S * EVERY_MS // 1000 // PAGE_ROWS + 1
PAGE = "page"


@dataclass
class Outage(Story):
    """A server that is away for hours in which much is due, and comes back while other tasks are due all the time.
    `order`: which page of the missed buckets was let in and what was delivered, as it happened."""

    order: list[str] = field(default_factory=list)
    late_ms: dict[str, float] = field(default_factory=dict)
    throttle: Throttle | None = field(default_factory=lambda: Throttle(ROWS_PER_S))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_calm, self.is_stream, self.is_tight = True, False, False
        self.weather.clear_up()
        self.config, self.settings = ServerConfig(), HoldingSettings("me", traits=MemoryStore.traits)
        self.back_ms = self.begin_ms

    def _form(self) -> Form:
        return Form.ANY

    def _down_ms(self) -> float:
        return self.back_ms - self.loop.now_ms

    def start(self) -> None:
        super().start()
        assert self.run is not None
        self.run.node.scheduler.effect_runner._throttle = cast(Any, SimpleNamespace(wait=self._page))

    async def _page(self, rows: int) -> None:
        if self.throttle is not None:
            await self.throttle.wait(rows)
        if rows:
            self.order.append(PAGE)

    def log(self, event: Event) -> None:
        super().log(event)
        if isinstance(event, Delivered):
            self.order.append(event.name)
            self.late_ms[event.name] = event.at_ms - event.fire_at_ms

    async def tell(self) -> None:
        self.loop.leap(self.begin_ms)
        paging_module.PAGE_BYTES = 250
        self.start()
        begin_ms = int(self.begin_ms) // BUCKET_MS * BUCKET_MS
        for page in range(MISSED_BUCKETS * PAGES_A_BUCKET):
            due_ms = begin_ms + (2 + page // PAGES_A_BUCKET) * BUCKET_MS + 1_000 * page
            names = tuple(f"missed {page}.{n}" for n in range(PAGE_ROWS))
            await self.schedule(f"missed {page}", names, tuple(Wanted(due_ms, "missed") for _ in names))
        self.back_ms = begin_ms + (MISSED_BUCKETS + 14) * BUCKET_MS + 60_000
        names = tuple(f"on time {n}" for n in range(ON_TIME))
        wanted = tuple(Wanted(int(self.back_ms) + 3_000 + EVERY_MS * n, "punctual") for n in range(ON_TIME))
        await self.schedule("on time", names, wanted)
        await self.stop()
        self.hire(("ack",), ("missed", "punctual"), 10_000)
        await asyncio.sleep((self.back_ms - self.loop.now_ms) / 1000 + 60)


def pages_between(order: list[str]) -> list[int]:
    """How many came in a row between two deliveries that were on time."""
    seen = [each for each in order if each == PAGE or each.startswith("on time")]
    last = len(seen) - seen[::-1].index(f"on time {ON_TIME - 1}")
    between = groupby(seen[seen.index("on time 0") : last], lambda each: each == PAGE)
    return [len(list(pages)) for is_page, pages in between if is_page]


def test_what_is_on_time_keeps_its_share_while_an_outage_is_made_up_for() -> None:
    story = told(Outage(1))
    assert story.errors == []
    assert {name for name in story.late_ms if name.startswith("missed")} == {
        f"missed {page}.{n}" for page in range(MISSED_BUCKETS * PAGES_A_BUCKET) for n in range(PAGE_ROWS)
    }
    assert {late_ms for name, late_ms in story.late_ms.items() if name.startswith("on time")} == {0}
    pages = pages_between(story.order)
    assert max(pages) <= MOST_PAGES
    assert sum(pages) >= 2 * PAGES_A_BUCKET, "a good part is made up for while others are on time"


def test_without_a_rate_many_pages_come_at_once() -> None:
    """So the test above can fail."""
    assert max(pages_between(told(Outage(1, throttle=None)).order)) > MOST_PAGES
