"""Histories with limit keys in little memory: one customer has more due than it holds, the others a few. The same
checker judges them, and that a key with few tasks has its turns: none stands in the store behind those of another."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from dataclasses import replace
from itertools import count, islice
from unittest.mock import patch

from tests.simulator.events import Wanted
from tests.simulator.forms import LONG_DUE_MS, Form
from tests.simulator.judge import Verdict, noted, sentences
from tests.simulator.keyed import KeyedChecker, KeyedStory, limit_key_of, limit_of
from tests.simulator.known import Known
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told
from tests.simulator.variants import VARIANTS
from timerd.core.due_queue import key_places
from timerd.core.partition import memory
from timerd.model.partition import BUCKET_MS
from timerd.services.holding import paging

# Of each queue and partition there is room for a dozen rows.
SHARE_BYTES = 700
PAGE_BYTES = 250
LONG, LONG_ROWS = "ann", 30
# So many rows of a key are few.
FEW = 2


class NarrowStory(KeyedStory):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.is_fair = not limit_of(self.seed)
        self.config = replace(self.config, memory_budget_bytes=1)

    def _form(self) -> Form:
        return Form.NARROW

    def start(self) -> None:
        memory.SMALLEST_SHARE_BYTES, paging.PAGE_BYTES = SHARE_BYTES, PAGE_BYTES
        super().start()

    async def pile_up(self) -> None:
        """All of it is due for a while before the one worker comes, that of the long key first."""
        chance, now_ms = self.random.choice, int(self.loop.now_ms)
        border_ms = now_ms - now_ms % BUCKET_MS + BUCKET_MS
        begin_ms = chance((now_ms + 300, border_ms + 20))
        of_long = list(islice((name for name in _names() if limit_key_of(name) == LONG), LONG_ROWS))
        others = [f"o{n}.0" for n in range(40)]
        few = [name for key in ("bob", "cat", "") for name in [o for o in others if limit_key_of(o) == key][:FEW]]
        for at in range(0, LONG_ROWS, 6):
            names = tuple(of_long[at : at + 6])
            wanted = tuple(Wanted(begin_ms + chance((0, 1, 40, 400)), "a") for _ in names)
            self.spawn(self.schedule(f"p{at}", names, wanted))
        for name in few:
            self.spawn(self.schedule(name.split(".")[0], (name,), (Wanted(begin_ms + chance((401, 500)), "a"),)))
        await asyncio.sleep((begin_ms - now_ms + LONG_DUE_MS) / 1000)
        self.hire(("ack",), ("a", "b"), credit=chance((1, 1, 2)))
        await asyncio.sleep(2)


def _names() -> map[str]:
    return map("p{}".format, count())


class NarrowChecker(KeyedChecker):
    """Of turns those of keys with few tasks are judged: the others may stand in the store."""

    def _of_queue(self, queue: str, limit_key: str) -> list[Known]:
        found = [each for each in super()._of_queue(queue, limit_key) if not each.delivered]
        return found if len(found) <= FEW else []


def judged_narrow(seed: int, *, once: bool = False) -> tuple[Verdict, NarrowChecker]:
    """As keyed.judged_keyed."""
    with (
        VARIANTS["correct"](),
        sizes_of(seed),
        patch.object(key_places, "LEAST_ROWS", 1),
        patch("timerd.core.due_queue.waiting_bytes.TEMPLATE_BYTES", 0),
        patch.object(memory, "SMALLEST_SHARE_BYTES", SHARE_BYTES),
        noted() as errors,
    ):
        story = told(NarrowStory(seed, repeats=None if once else Repeats(seed)))
        gc.collect()
    checker = NarrowChecker(most=limit_of(seed), fair=story.is_fair)
    broken = checker.judge(story.events)
    wrong = sentences(story, broken, errors)
    return Verdict(seed, "correct", tuple(wrong), len(story.events), Counter(), once=once), checker
