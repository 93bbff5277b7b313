"""Histories of a cluster of a kind of their own: what chance alone brings about too rarely to show a broken rule.

A quarter of the seeds tell one (the last two of each eight; of an overrun machine one in 32), so all other seeds keep
their histories. How each begins
is in `beginnings.py`; what chance does comes after that.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from timerd.core.cluster.membership import Timing
from timerd.model.partition import BUCKET_MS, bucket_of

if TYPE_CHECKING:
    from tests.simulator.cluster.story import ClusterStory


class ClusterForm(StrEnum):
    """`LATE`: a mark is held up on its way until its sender has been succeeded. `FLOOR`: rows come in while marks move
    past them. `END`: rows come in while their bucket is being finished. `MOVES`: calls for the same few tasks at once,
    while their holders change. `LEAVING`: instances leave and come, and nothing is broken. `CRASHES`: holders end in
    the midst of what they write. `CANCELS`: calls for what others hold, who do not hear of it. `LEASES`: what workers
    keep for long is carried on. `OVERRUN`: instances leave and come while calls between them take seconds or get no
    answer, and the store is slow."""

    ANY = "any"
    LATE = "late"
    FLOOR = "floor"
    END = "end"
    MOVES = "moves"
    LEAVING = "leaving"
    CRASHES = "crashes"
    CANCELS = "cancels"
    LEASES = "leases"
    OVERRUN = "overrun"


# Of each form there are two kinds: seeds of the second have more that is rare, and less that is not.
FORMS = tuple(form for form in ClusterForm if form not in (ClusterForm.ANY, ClusterForm.OVERRUN))
OVERRUN_EVERY, OVERRUN_AT = 32, 16
CALM = frozenset((ClusterForm.LEAVING, ClusterForm.LEASES, ClusterForm.OVERRUN))
SHORT = Timing(500, 3_000)


def form_of(seed: int) -> ClusterForm:
    if seed % OVERRUN_EVERY == OVERRUN_AT:
        return ClusterForm.OVERRUN
    return FORMS[seed // 8 % 4 * 2 + seed % 2] if seed % 8 >= 6 else ClusterForm.ANY


def is_second(seed: int) -> bool:
    return seed // 32 % 2 == 1


def shape(story: ClusterStory) -> None:
    """Once chance has made the story: nothing else is in the way."""
    form = story.shape
    if form is ClusterForm.ANY:
        return
    chance, weather = story.random.choice, story.weather
    story.is_calm, story.is_tight = form in CALM, False
    weather.unavailable = weather.unknown = story.net.lost = story.replicas.slow_ms = 0.0
    weather.slow_ms, weather.delays_ms = {}, chance(((0,), (0, 1, 5)))
    story.settings = replace(story.settings, mark_every_ms=100, max_settled=200_000)
    story.tick_s, story.skew_ms, story.timing = 0.1, 0, SHORT
    _lag(story, 600_000)
    if form in _SHAPES:
        _SHAPES[form](story)


def _lag(story: ClusterStory, lag_ms: int) -> None:
    story.config = replace(story.config, max_mark_lag_ms=lag_ms, memory_budget_bytes=1 << 30)
    story.settings = replace(story.settings, max_mark_lag_ms=lag_ms)


def _floor(story: ClusterStory) -> None:
    """Rows come to the store late, and nobody tells their holder; what is carried crosses the border of a bucket."""
    chance = story.random.choice
    append_ms = chance((400, 1_500))
    story.weather.slow_ms = {"append": append_ms, "cas": append_ms / 2, **chance(({}, {"facts": 200}))}
    story.net.hints_lost = chance((0.0, 1.0))
    _lag(story, chance((600_000, 2_000)))
    story.begin_ms = _border_ms(story) - chance((1_000, 2_500))
    if is_second(story.seed):
        story.weather.slow_ms = {"cas": chance((100, 200, 300))}
        _lag(story, 600_000)


def _end(story: ClusterStory) -> None:
    """Two shards, of which one is used when the bucket is over; nobody tells who holds it."""
    chance = story.random.choice
    story.record_settings(2)
    story.net.hints_lost = 1.0
    story.begin_ms = _border_ms(story) - 4_000
    story.instants = [story.begin_ms + 5_500, story.begin_ms + 13_000]
    story.weather.slow_ms = dict(chance(({}, {"finish_bucket": 1_500})))
    if is_second(story.seed):
        slow: tuple[str, ...] = chance((("catalogue",), ("finish_bucket",), ("finish_bucket", "catalogue")))
        story.weather.slow_ms = dict.fromkeys(("append", *slow), 1_500)
        story.settings = replace(story.settings, mark_every_ms=chance((100, 1_000)))


def _border_ms(story: ClusterStory) -> int:
    return bucket_of(int(story.begin_ms)) + BUCKET_MS


def _moves(story: ClusterStory) -> None:
    chance = story.random.choice
    story.weather.delays_ms = chance(((0, 1, 40), (0, 5, 100, 400)))
    story.weather.slow_ms = dict(chance(({}, {"settled": 900}, {"append": 700}, {"mark": 700}, {"scan": 900})))
    if is_second(story.seed):
        story.weather.delays_ms = chance(((0, 1, 5), (0, 5, 100, 400)))
        story.weather.slow_ms = dict(chance(({"read": 1_200}, {"cas": 1_200}, {"mark": 1_200}, {"append": 1_200})))
        story.settings = replace(story.settings, mark_every_ms=1_000)


def _leases(story: ClusterStory) -> None:
    """So short that it is carried on while a worker has it."""
    _lag(story, 2_000)
    story.begin_ms = _border_ms(story) - story.random.choice((1_500, 4_000, 40_000))


def _overrun(story: ClusterStory) -> None:
    """A lease lasts longer than what is said of it is on its way."""
    chance = story.random.choice
    story.timing = Timing(2_000, 10_000)
    story.leases_ms = (6_000, 30_000)
    story.net.delays_ms = chance(((0, 1, 500), (0, 50, 1_500), (0, 0, 0, 2_500)))
    story.way_ms = max(story.net.delays_ms)
    story.net.lost = chance((0, 0.1, 0.3))
    story.weather.delays_ms = chance(((0, 1, 5), (0, 100, 400), (0, 300, 900)))


def _crashes(story: ClusterStory) -> None:
    chance = story.random.choice
    story.weather.slow_ms = dict(chance(({"append": 1_000}, {"facts": 600}, {"settle": 1_000})))
    _lag(story, chance((600_000, 2_000)))
    if is_second(story.seed):
        story.weather.unknown, story.replicas.late = 0.25, 0.0


def _cancels(story: ClusterStory) -> None:
    chance = story.random.choice
    story.weather.slow_ms = dict(chance(({}, {"settled": 1_200}, {"scan": 1_200})))
    if is_second(story.seed):
        story.settings = replace(story.settings, mark_every_ms=1_000)


_SHAPES = {
    ClusterForm.FLOOR: _floor,
    ClusterForm.END: _end,
    ClusterForm.MOVES: _moves,
    ClusterForm.LEASES: _leases,
    ClusterForm.OVERRUN: _overrun,
    ClusterForm.CRASHES: _crashes,
    ClusterForm.CANCELS: _cancels,
}
