"""Histories with callers that wait: each is told in time the end that stands, and broken rules are caught."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from tests.simulator.called import judged_called, judged_called_cluster
from tests.simulator.judge import Verdict
from timerd.services.calls import calling
from timerd.services.calls.results import KeptResults
from timerd.services.calls.task_ends import TaskEnds
from timerd.services.engine.verbs import State

# In fewer calls little was told.
TOLD = 20


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("judged", "seeds"), [(judged_called, 15), (judged_called_cluster, 10)])
def test_each_caller_is_told_the_end_that_stands(judged: Callable[[int], Verdict], seeds: int) -> None:
    hits = Counter[str]()
    for seed in range(seeds):
        verdict = judged(seed)
        assert not verdict.wrong, f"seed {seed}: {verdict.wrong}"
        hits += verdict.hits
    assert hits["ACKED"] >= TOLD
    assert hits["open"] >= TOLD


@contextmanager
def attempts_are_ends() -> Iterator[None]:
    """A task that was sent is taken for one that is done."""
    until_over = TaskEnds.until_over

    async def until_sent(self: Any, wait: Any, look: Any, timeout_s: float, **more: Any) -> Any:
        view = await until_over(self, wait, look, timeout_s, **more)
        return replace(view, state=State.ACKED) if view.attempt else view

    with patch.object(TaskEnds, "until_over", until_sent):
        yield


@contextmanager
def each_try_is_another_call() -> Iterator[None]:
    """A repeat stores a task of its own."""
    scheduled_by = calling.scheduled_by

    def anew(request: Any) -> Any:
        asked = scheduled_by(request)
        asked.delay.FromNanoseconds(1_000_000 * request.timeout.ToMilliseconds() + 1)
        return asked

    with patch.object(calling, "scheduled_by", anew):
        yield


@contextmanager
def result_after_the_end() -> Iterator[None]:
    """The end of the task is recorded at once, and its result whenever that is."""

    async def later(self: Any, namespace: str, tokens: Any, result: Any, keep_ms: int) -> None:
        """It is lost here."""

    with patch.object(KeptResults, "keep", later):
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("broken", "judged", "seeds"),
    [
        (attempts_are_ends, judged_called, range(10)),
        (each_try_is_another_call, judged_called, range(10)),
        (result_after_the_end, judged_called_cluster, range(10)),
    ],
)
def test_a_broken_rule_is_caught(
    broken: Callable[[], AbstractContextManager[None]], judged: Callable[[int], Verdict], seeds: range
) -> None:
    with broken():
        assert any(judged(seed).wrong for seed in seeds)
