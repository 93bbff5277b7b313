"""The short form of `make chaos`: three instances on one real node, an instance killed and started, one cut from the
store, all restarted; judged by what callers and workers wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.run import Round, Run
from tests.chaos.stage import Setting, Stage
from tests.engines.finding import Found
from tests.engines.keyspace import NAME, Keyspace

pytestmark = [pytest.mark.engines, pytest.mark.process]
FAULTS = ("kill-start", "cut-store", "roll")
TASKS = 400
# A machine that is busy with other things does not lose its leases by that.
TTL_MS = 4_000


@pytest.fixture
def stage(cassandra_found: Found, keyspace: Keyspace, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(Setting(tmp_path, cassandra_found, NAME, seed=1, ttl_ms=TTL_MS))
    with stage.running():
        yield stage


def test_three_faults_under_load_break_no_promise(stage: Stage) -> None:
    """A round that does not count is played again, so that a slow machine takes longer and shows the same."""
    rounds: list[Round] = []
    report = Run(stage, FAULTS, TASKS, rounds.append).play(len(FAULTS))
    print(*rounds, f"given up: {report.judgement.given_up}", sep="\n")
    assert report.stuck == ""
    assert report.counted >= len(FAULTS), [str(each) for each in rounds]
    broken = [sentence for sentences in report.judgement.verdict.violations.values() for sentence in sentences]
    assert broken == [], "\n".join(report.evidence)
    assert [str(each) for each in rounds if not each.is_within] == []
    assert report.holds
