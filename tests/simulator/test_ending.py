"""Histories with ends that make tasks: each makes one, and each broken rule is caught."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.simulator.ending import BROKEN, judged_ending, judged_ending_cluster
from tests.simulator.judge import Verdict

PAGE = Path(__file__).parents[2] / "docs/understand/architecture.md"
# So many ends of each kind are told at the least.
TOLD = {"ACKED": 50, "DEAD": 1, "CANCELLED": 5, "EXPIRED": 2}
# Seeds of one instance with tasks that die.
RARE = (43, 71)
# By a seed of one instance, and one of several.
KNOWN = {
    "ends-not-made-again": (5, 19),
    "made-anew-by-each-holder": (4, 1),
    "left-by-a-move-and-told": (20, 15),
}
# More are tried, for a change of the code under test gives other histories.
OTHERS = 60
# Seeds of several instances that have shown a defect which is mended.
MENDED = (7,)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("judged", "seeds"), [(judged_ending, (*range(35), *RARE)), (judged_ending_cluster, range(15))]
)
def test_each_end_makes_one_task(judged: Callable[[int], Verdict], seeds: Iterable[int]) -> None:
    hits = Counter[str]()
    for seed in seeds:
        verdict = judged(seed)
        assert not verdict.wrong, f"{verdict.replay}: {verdict.wrong}"
        hits += verdict.hits
    assert {outcome: hits[outcome] for outcome in TOLD if hits[outcome] < TOLD[outcome]} == {}, hits


@pytest.mark.parametrize("seed", MENDED)
def test_what_was_mended_stays_so(seed: int) -> None:
    assert not (verdict := judged_ending_cluster(seed)).wrong, f"{verdict.replay}: {verdict.wrong}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("judged", [judged_ending, judged_ending_cluster])
def test_a_broken_rule_is_caught(name: str, judged: Callable[..., Verdict]) -> None:
    seeds = (KNOWN[name][judged is judged_ending_cluster], *range(OTHERS))
    assert any(any(each.startswith("R2") for each in judged(seed, name).wrong) for seed in seeds)


def test_the_page_names_these_seeds() -> None:
    rows = re.findall(r"^\| ([a-z-]+) \| (\d+) \| (\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: (int(alone), int(several)) for name, alone, several in rows if name in KNOWN} == KNOWN
    assert set(KNOWN) == set(BROKEN) - {"correct"}
