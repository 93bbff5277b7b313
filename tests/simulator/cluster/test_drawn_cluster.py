"""Histories of a cluster in which a start needs tokens of several low rates: nearly as much starts as on one server,
and of no rate more than is promised."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.cluster.drawn import FORMS, Form, Ruled, judged_drawn, more, one_server, rate
from tests.simulator.cluster.ruled import Start


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(len(FORMS)), ids=[*FORMS])
def test_all_together_start_nearly_what_one_server_would(seed: int) -> None:
    verdict = judged_drawn(seed)
    assert not verdict.wrong, f"{verdict.replay}: {verdict.wrong}"


@pytest.mark.timeout(900)
def test_too_few_start_where_nothing_goes_back() -> None:
    """In which of them calls come by chance: one of the first that lose much by it."""
    assert any(judged_drawn(seed, "nothing-goes-back").wrong for seed in (1, 4, 5))


def test_one_server_starts_what_the_lowest_of_its_rates_gives() -> None:
    keys = Form({"a": Ruled(rate(30), rate(20), customers=2), "b": Ruled(None, rate(6))})
    assert one_server(keys, 60_000) == Counter({"a": 29, "b": 5})


def test_queues_that_share_a_limit_start_alike_on_one_server() -> None:
    shared = Form({"a": Ruled(None, rate(20), ("post",)), "b": Ruled(None, None, ("post",))}, {"post": rate(31)})
    assert one_server(shared, 60_000) == Counter({"a": 15, "b": 15})


def test_the_judge_counts_each_rate_by_itself() -> None:
    form = Form({"a": Ruled(rate(60), rate(1), customers=2)})
    fits = [Start(1_000, "x", 1, "k0", "a"), Start(2_000, "y", 1, "k1", "a")]
    assert list(more(form, fits)) == []
    assert len(list(more(form, [*fits, Start(3_000, "x", 1, "k1", "a")]))) == 1
