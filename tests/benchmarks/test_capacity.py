"""The capacity page is what the script computes, and its figures are those of the pages that it names."""

from __future__ import annotations

import asyncio
import re

import pytest

from benchmarks.capacity import MEASURED, PAGE, Plan, page
from benchmarks.store_calls import measure


def test_the_page_is_what_the_script_writes() -> None:
    assert PAGE.read_text() == page(Plan()), "python -m benchmarks.capacity --write-docs"


# Those of benchmarks.md are read from there; these were typed in.
TYPED = [name for name, each in MEASURED.items() if "](" in each.source and "benchmarks.md" not in each.source]


@pytest.mark.parametrize("name", TYPED)
def test_a_figure_stands_on_the_page_that_it_is_taken_from(name: str) -> None:
    figure = MEASURED[name]
    link = re.search(r"\(([\w./]+\.md)\)", figure.source)
    assert link is not None
    words = re.findall(r"\d[\d,.]*\b", (PAGE.parent / link[1]).read_text())
    # 3.11.7 is no number.
    assert figure.value in {float(word.replace(",", "")) for word in words if word.count(".") < 2}


def test_more_tasks_need_more_of_everything() -> None:
    small, large = Plan(), Plan(pending=20e9, per_day=4e9)
    assert large.nodes > small.nodes
    assert large.most_cores > small.most_cores
    assert large.instances(large.most_cores) > small.instances(small.most_cores)
    assert large.fewest_shards > small.fewest_shards


def test_transactions_go_by_shards_and_not_by_tasks() -> None:
    assert Plan(peak=0).transactions == pytest.approx(70 + 3 * 0.5, abs=1)
    assert Plan(shards=140).transactions == Plan().transactions + 70


def test_a_small_cluster_still_has_three_of_each() -> None:
    tiny = Plan(pending=1e6, per_day=1e5, shards=4)
    assert (tiny.nodes, tiny.instances(tiny.most_cores)) == (3, 3)


def test_calls_of_a_cluster_at_rest_are_its_heartbeats() -> None:
    calls = asyncio.run(measure(0, instances=3, shards=4, seconds=20))
    changes = {kind: n for kind, n in calls.items() if kind.startswith("cas")}
    assert changes == {"cas instances": pytest.approx(1.5)}
