"""What the operator is told of settings that harm, or that do nothing any more."""

from __future__ import annotations

import pytest

from timerd.adapters.cassandra.settings import CassandraSettings, advice_on


def test_a_setting_without_effect_is_named() -> None:
    """Repeats are recognised by their rows."""
    [said] = advice_on(CassandraSettings(remember_requests=True), 3)
    assert "remember_requests has no effect" in said


@pytest.mark.parametrize(("replicas", "said"), [(1, True), (2, True), (3, False)])
def test_so_few_replicas_that_a_node_takes_tasks_along_are_told(replicas: int, *, said: bool) -> None:
    assert any("replica(s)" in each for each in advice_on(CassandraSettings(), replicas)) == said
