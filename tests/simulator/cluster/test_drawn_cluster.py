"""Histories of a cluster in which a start needs tokens of several low rates: nearly as much starts as on one server,
no key stands still, and of no rate more starts than is promised."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.cluster.drawn import FORMS, LASTS_MS, Form, Ruled, judged_drawn, more, one_server, rate, still
from tests.simulator.cluster.ruled import Start


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(len(FORMS)), ids=[*FORMS])
def test_all_together_start_nearly_what_one_server_would(seed: int) -> None:
    verdict = judged_drawn(seed)
    assert not verdict.wrong, f"{verdict.replay}: {verdict.wrong}"


# By the seeds that show them.
BROKEN = {"each-key-draws": 2, "drawn-unseen": 1}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BROKEN)
def test_too_few_start_where_tokens_are_drawn_in_vain(name: str) -> None:
    verdict = judged_drawn(BROKEN[name], name)
    assert any("on one server" in each for each in verdict.wrong)


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


def test_the_judge_sees_a_key_that_stands_still() -> None:
    form = Form({"a": Ruled(rate(30), rate(20), customers=2)})
    starts = [Start(at_ms, "x", 1, f"k{at_ms // 2_000 % 2}", "a") for at_ms in range(0, LASTS_MS, 2_000)]
    assert list(still(form, starts, 0)) == []
    assert len(list(still(form, [each for each in starts if each.limit_key == "k0" or each.at_ms < 9_000], 0))) == 1
