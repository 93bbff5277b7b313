"""The short form of `python -m tests.chaos.regulated`: three instances on one real node, one of them killed and started
while tasks of ordering keys, limits and types are under way; judged by what callers and workers wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.regulated.run import Round, Run
from tests.chaos.regulated.stage import RegulatedStage
from tests.chaos.stage import Setting
from tests.engines.finding import Found
from tests.engines.keyspace import NAME, Keyspace

pytestmark = [pytest.mark.engines, pytest.mark.process]
# A machine that is busy with other things does not lose its leases by that.
TTL_MS = 4_000
TASKS = 150


@pytest.fixture
def stage(cassandra_found: Found, keyspace: Keyspace, tmp_path: Path) -> Iterator[RegulatedStage]:
    stage = RegulatedStage(Setting(tmp_path, cassandra_found, NAME, seed=1, ttl_ms=TTL_MS))
    with stage.running():
        yield stage


def test_a_kill_breaks_neither_order_nor_limits_nor_types(stage: RegulatedStage) -> None:
    rounds: list[Round] = []
    report = Run(stage, ("kill-start",), TASKS, rounds.append).play(1)
    print(*rounds, report.verdict, sep="\n")
    assert report.stuck == ""
    broken = [sentence for sentences in report.verdict.wrong.values() for sentence in sentences]
    assert broken == []
    assert report.verdict.keyed >= 50
    assert report.verdict.placed >= 20
    assert report.verdict.most["partner"] >= 2
