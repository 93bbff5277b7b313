"""G14 on a real node: after three days without anybody all that was missed comes, the oldest first, while what is on
time goes on. The long form, with each bucket filled: `python -m tests.engines.outage`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.finding import Found
from tests.engines.keyspace import NAME, Keyspace
from tests.engines.outage import Outage, Story, played, said
from timerd.core.instance_machine import MISSED_OPEN
from timerd.model.partition import BUCKET_MS

pytestmark = [pytest.mark.engines, pytest.mark.process]
# Every other hour has tasks.
SHORT = Outage(hours=72, bucket_every=24, tasks=3, shards=2)


async def test_after_three_days_all_that_was_missed_comes_the_oldest_first(
    cassandra_found: Found, keyspace: Keyspace, tmp_path: Path
) -> None:
    story = await played(cassandra_found, NAME, tmp_path, SHORT)
    print(said(story, SHORT))
    assert (len(story.missed), story.lost, story.twice, story.early) == (36 * 3, 0, 0, 0)
    assert story.most_ahead <= story.allowed_ahead
    assert story.late_ms[False], "what was on time came while the rest was made up for"


async def test_who_comes_before_too_many_older_ones_is_noticed() -> None:
    missed = [n * BUCKET_MS for n in range(3 * MISSED_OPEN)]
    story = Story(missed, arrived=[missed[-1], *missed])
    assert (story.lost, story.twice, story.holds) == (0, 1, False)
    assert story.most_ahead > story.allowed_ahead
    assert Story(missed, arrived=[missed[1], missed[0], *missed[2:]]).holds
    assert Story(missed, arrived=missed[:-1]).lost == 1
