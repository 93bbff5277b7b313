"""The short form of `python -m tests.chaos.recurring`: three instances on one real node, one of them killed and started
while schedules are created, changed and deleted; judged by what callers and a worker wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.recurring.run import Round, Run
from tests.chaos.recurring.stage import RecurringStage
from tests.chaos.stage import Setting
from tests.engines.finding import Found
from tests.engines.keyspace import NAME, Keyspace

pytestmark = [pytest.mark.engines, pytest.mark.process, pytest.mark.long]
# A machine that is busy with other things does not lose its leases by that.
TTL_MS = 4_000


@pytest.fixture
def stage(cassandra_found: Found, keyspace: Keyspace, tmp_path: Path) -> Iterator[RecurringStage]:
    stage = RecurringStage(Setting(tmp_path, cassandra_found, NAME, seed=1, ttl_ms=TTL_MS), of_each=1)
    with stage.running():
        yield stage


def test_a_kill_while_schedules_are_changed_breaks_no_promise(stage: RecurringStage) -> None:
    rounds: list[Round] = []
    report = Run(stage, ("kill-start",), rounds.append).play(1)
    print(*rounds, report.verdict, sep="\n")
    assert report.stuck == ""
    broken = [sentence for sentences in report.verdict.wrong.values() for sentence in sentences]
    assert broken == []
    assert report.verdict.occurrences >= 20
