"""Histories of a cluster with a rate: it is never above what is promised, and each broken rule is caught."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.cluster.rated import above, judged_rated
from tests.simulator.cluster.ruled import Start
from timerd.model.regulations import QueueLimit

SEEDS = range(10)
# Seeds that have shown a defect which is mended: the last instance that leaves looked for a keeper.
MENDED = (1,)
# So many starts came near one of another instance.
CONTESTED = 5


@pytest.mark.timeout(900)
def test_all_instances_together_keep_to_a_rate() -> None:
    hits = Counter[str]()
    for seed in SEEDS:
        verdict = judged_rated(seed)
        assert not verdict.wrong, f"{verdict.replay}: {verdict.wrong}"
        hits += verdict.hits
    assert hits["contested"] >= CONTESTED, hits


def test_the_judge_lets_a_second_more_and_the_burst_go() -> None:
    """Of two a second with a burst of three: five at once, and then two a second."""
    limit = QueueLimit(0, 2, 1_000, 3)
    fits = [Start(1_000, "a", 5), Start(1_500, "b", 1), Start(2_500, "a", 2)]
    assert list(above(fits, limit)) == []
    assert len(list(above([*fits, Start(2_999, "b", 1)], limit))) == 1
    assert len(list(above([Start(1_000, "a", 5), Start(1_000, "b", 1)], limit))) == 1


@pytest.mark.parametrize("seed", MENDED)
def test_what_was_mended_stays_so(seed: int) -> None:
    assert not (verdict := judged_rated(seed)).wrong, f"{verdict.replay}: {verdict.wrong}"


# By the seeds that show them; more are tried, for a change of the code under test gives other histories.
KNOWN = {"each-for-itself": 4, "tokens-never-lapse": 20}
OTHERS = 20


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", KNOWN)
def test_each_broken_rule_is_caught(name: str) -> None:
    seeds = (KNOWN[name], *range(OTHERS))
    assert any(any(each.startswith("G20") for each in judged_rated(seed, name).wrong) for seed in seeds)
