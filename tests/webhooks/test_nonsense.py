"""Answers that no receiver should give end as docs/use/webhooks.md says, and nothing else comes of them.

`make fuzz-webhooks` draws them for as long as one likes, against a server of its own process.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.webhooks.babbler import babbling
from tests.webhooks.fuzz import fuzz
from tests.webhooks.nonsense import KINDS, NO_TIMES, Ends, Nonsense, drawn
from tests.webhooks.posted import ALLOWED, target
from timerd.adapters.http_posting import AiohttpPoster
from timerd.core.dispatch import Action
from timerd.core.webhooks.answers import ERROR_CHARS, MOST_WAIT_MS, Consequence, judge_answer, retry_after_ms
from timerd.model.webhooks import ERROR_BYTES, NoAnswer

# A receiver that answers at all does so in this time, also on a busy machine.
SEEDS, AT_ONCE, TIMEOUT_MS = 300, 150, 5_000
NOW_MS = 1_900_000_000_000
ENDS = {Action.ACK: Ends.ACKED, Action.NACK: Ends.FAILED, Action.RELEASE: Ends.THROTTLED}


async def judged(poster: AiohttpPoster, seed: int) -> Consequence:
    """Any other error than NoAnswer fails the test."""
    try:
        answer = await poster.post({}, b"%d" % seed, TIMEOUT_MS)
    except NoAnswer as error:
        return judge_answer(error, NOW_MS, frozenset())
    assert len(answer.body) <= ERROR_BYTES
    return judge_answer(answer, NOW_MS, frozenset())


def fits(nonsense: Nonsense, consequence: Consequence) -> bool:
    is_short = len(consequence.error) <= 50 + ERROR_CHARS and (consequence.wait_ms or 0) <= MOST_WAIT_MS
    return is_short and nonsense.ends in (Ends.EITHER, ENDS.get(consequence.action))


async def test_each_ends_as_the_page_says(caplog: pytest.LogCaptureFixture) -> None:
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    async with babbling(lambda seed: drawn(seed, waits_long=True)) as babbler:
        poster = AiohttpPoster(target(babbler.url, in_flight=AT_ONCE), ALLOWED.objection)
        room = asyncio.Semaphore(AT_ONCE)

        async def one(seed: int) -> str:
            async with room:
                consequence = await judged(poster, seed)
            nonsense = drawn(seed, waits_long=True)
            return "" if fits(nonsense, consequence) else f"{seed}: {nonsense.says}: {consequence}"

        found = await asyncio.gather(*map(one, range(SEEDS)))
        await poster.close()
    assert [each for each in found if each] == []
    assert (unheard, [record.getMessage() for record in caplog.records]) == ([], [])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_drawn(kind: object) -> None:
    """As often as not: what is drawn is what the seed says, here and in a run of `make fuzz-webhooks`."""
    said = {kind(random.Random(seed)).says for seed in range(SEEDS)}  # type: ignore[operator]
    assert {drawn(seed).says for seed in range(SEEDS)} & said


@pytest.mark.parametrize("header", NO_TIMES)
def test_a_time_that_nobody_can_read_is_none(header: bytes) -> None:
    assert retry_after_ms(header.decode("latin-1"), NOW_MS) is None


@pytest.mark.process
async def test_a_server_survives_them(tmp_path: Path) -> None:
    """Of each task of a real server come as many requests as the page says, and its log has no traceback."""
    tried, found = await fuzz(tmp_path, iter(range(SEEDS, SEEDS + 100)))
    assert (tried, found) == (100, [])
