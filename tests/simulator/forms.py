"""Histories of a kind of their own: what chance alone brings about too rarely to show a broken rule.

Some seeds tell one, so all others keep their histories.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

from tests.simulator.events import Wanted
from timerd.model.partition import BUCKET_MS

if TYPE_CHECKING:
    from tests.simulator.story import Story

# From when on the order is judged, and then some.
LONG_DUE_MS = 6_000


class Form(StrEnum):
    """`QUEUING`: more is due than the worker takes at once. `FLOOR`: rows come in while a mark moves past them.
    `RELOAD`: rows come in while a queue of which memory kept the beginning is brought in again. `EXPIRY`: tasks expire
    that nobody works, and calls want their key or their end. `NARROW`: one limit key has more due than memory holds."""

    ANY = "any"
    QUEUING = "queuing"
    FLOOR = "floor"
    RELOAD = "reload"
    EXPIRY = "expiry"
    NARROW = "narrow"


def form_of(seed: int) -> Form:
    if seed % 7 == 2:
        return Form.QUEUING
    if seed % 16 == 4:
        return Form.FLOOR
    if seed % 13 == 5:
        return Form.RELOAD
    return Form.EXPIRY if seed % 25 == 24 else Form.ANY


def shape(story: Story) -> None:
    """Once chance has made the story."""
    if story.form is Form.ANY:
        return
    story.is_calm, story.is_stream = story.form in (Form.QUEUING, Form.NARROW), False
    story.is_tight = story.form is Form.RELOAD
    weather = story.weather
    weather.unavailable = weather.unknown = weather.crash_after_cas = 0.0
    budget_bytes = 120 if story.is_tight else 1 << 30
    story.config = replace(story.config, max_mark_lag_ms=600_000, memory_budget_bytes=budget_bytes)
    story.settings = replace(story.settings, max_mark_lag_ms=600_000, max_settled=200_000)
    if story.form is Form.EXPIRY:
        weather.delays_ms, weather.slow_ms = (0, 1), {}
    elif story.form in (Form.QUEUING, Form.NARROW):
        weather.delays_ms, weather.slow_ms = story.random.choice(((0,), (0, 1, 3))), {}
    elif story.form is Form.RELOAD:
        weather.delays_ms, weather.slow_ms = (0, 1), {"scan": story.random.choice((10, 60))}
        story.tick_s = 0.1
    else:
        weather.delays_ms, weather.slow_ms = (0,), {"cas": 80}
        story.settings, story.tick_s = replace(story.settings, mark_every_ms=100), 0.1


async def begin(story: Story) -> None:
    if story.form is Form.QUEUING:
        await _queue_up(story)
    elif story.form is Form.NARROW:
        await story.pile_up()
    elif story.form is Form.RELOAD:
        await _write_beside_reloads(story)
    elif story.form is Form.EXPIRY:
        await _let_expire(story)
    else:
        await _write_at_the_floor(story)


async def _queue_up(story: Story) -> None:
    """Everything is due for a while before the one worker comes, who takes little at a time."""
    chance = story.random.choice
    now_ms = int(story.loop.now_ms)
    border_ms = now_ms - now_ms % BUCKET_MS + BUCKET_MS
    instants = sorted({now_ms + 500, now_ms + 501, border_ms - 1, border_ms, border_ms + 40})
    # By a chance of its own: the rest of the history is as it was without it.
    someone_waits = Random(story.seed).random if story.seed // 7 % 2 else lambda: 1.0
    for n in range(chance((2, 3, 4))):
        names = tuple(f"q{n}.{i}" for i in range(chance((1, 2, 3))))
        wanted = tuple(Wanted(chance(instants), chance(("a", "a", "b")), chance((0, 0, 1, 2, 3))) for _ in names)
        wanted = tuple(replace(each, on_demand=someone_waits() < 0.3) for each in wanted)
        story.spawn(story.schedule(f"q{n}", names, wanted))
    await asyncio.sleep((instants[-1] - now_ms + LONG_DUE_MS) / 1000)
    story.hire(("ack",), ("a", "b"), credit=chance((1, 1, 2)))
    await asyncio.sleep(2)


async def _write_at_the_floor(story: Story) -> None:
    """What queue a gets is acknowledged at once, so the marks follow closely. Nobody works queue b."""
    chance = story.random.choice
    story.hire(("ack",), ("a",))
    last = chance((5, 8, 12))
    for n in range(last + 6):
        queue = "b" if n == last else "a"
        story.weather.writes_at_the_floor = n == last
        story.spawn(story.schedule(f"f{n}", (f"f{n}.0",), (Wanted(int(story.loop.now_ms), queue),)))
        await asyncio.sleep(chance((0.03, 0.05, 0.09)))


async def _write_beside_reloads(story: Story) -> None:
    """Of what is due of queue a only the beginning is kept. Messages for both queues come while the rest is read."""
    chance = story.random.choice
    for n in range(chance((2, 3))):
        names = tuple(f"r{n}.{i}" for i in range(3))
        request = f"r{n}" if story.repeats is None else f"rr{n}"
        story.spawn(story.schedule(request, names, tuple(Wanted(int(story.loop.now_ms) + 200, "a") for _ in names)))
    await asyncio.sleep(0.3)
    story.hire(("ack",), ("a", "b"), credit=chance((1, 2)))
    for n in range(8):
        queues = chance((("b",), ("b",), ("a",), ("a", "b")))
        names = tuple(f"w{n}.{queue}" for queue in queues)
        due_ms = int(story.loop.now_ms) + chance((0, 5, 90))
        story.spawn(story.schedule(f"w{n}", names, tuple(Wanted(due_ms, queue, chance((0, 3))) for queue in queues)))
        await asyncio.sleep(chance((0.02, 0.05, 0.1)))


async def _let_expire(story: Story) -> None:
    """One task after the other has the key, and expires before a worker comes."""
    chance = story.random.choice
    for n in range(chance((3, 4))):
        now_ms = int(story.loop.now_ms)
        wanted = Wanted(now_ms + chance((0, 20)), "a", expire_at_ms=now_ms + chance((100, 200)), key="k", policy="KEEP")
        story.spawn(story.schedule(f"x{n}", (f"x{n}.0",), (wanted,)))
        await asyncio.sleep(chance((0.05, 0.3, 0.5)))
        for name in list(story.ids):
            await story.get(name)
        if story.ids and story.random.random() < 0.5:
            story.spawn(story.cancel(f"xc{n}", (chance(list(story.ids)),)))
        await asyncio.sleep(0.02)
    story.hire(("ack",), ("a", "b"))
    await asyncio.sleep(0.5)
