"""A due task whose stream or webhook is in trouble says so, and so does the doctor."""

from __future__ import annotations

import math

import pytest

from timerd.core.sinks.breaker import Breaker, TargetHealth
from timerd.core.sinks.trouble import TargetTrouble, trouble_of
from timerd.core.taken import QueueKey
from timerd.model.identity import TaskId
from timerd.model.task import Template
from timerd.services.calls.queue_rules import NoRules
from timerd.services.calls.target_board import TargetBoard
from timerd.services.calls.waiting import waiting_of
from timerd.services.engine.verbs import State, TaskView
from timerd.v1.task_pb2 import WAIT_REASON_SLOT, WAIT_REASON_TARGET

ORDERS = QueueKey("default", "orders")
NOW_MS = 1_893_456_000_000
TASK = TaskId(NOW_MS, 0, 0, 0, b"p" * 12, 1, b"m" * 8)


class Target:
    """One whose breaker hears what the test says."""

    def __init__(self, kind: str = "stream") -> None:
        self.queue = ORDERS
        self.kind = kind
        self.breaker = Breaker(10, failures=1)
        self.now_ms = 5_000

    def trouble(self) -> TargetTrouble | None:
        return trouble_of(self.kind, self.breaker, "No answer: TimeoutError.", self.now_ms)


@pytest.fixture
def target() -> Target:
    return Target()


@pytest.fixture
def board(target: Target) -> TargetBoard:
    made = TargetBoard()
    made.watch([target])
    return made


def due(queue: str = "orders") -> TaskView:
    return TaskView(TASK, State.PENDING, NOW_MS, NOW_MS, Template("default", queue))


def test_a_task_waits_for_its_target_until_one_is_tried(target: Target, board: TargetBoard) -> None:
    target.breaker.heard(TargetHealth.FAILING, None, target.now_ms)
    waiting = waiting_of(due(), NoRules(), NOW_MS, board.trouble)
    assert waiting is not None
    assert waiting.reason == WAIT_REASON_TARGET
    assert waiting.description == (
        "The stream of its queue 'orders' fails: No answer: TimeoutError. One task is tried at "
        "2030-01-01T00:00:01.000Z."
    )
    assert waiting.until.ToMilliseconds() == NOW_MS + 1_000
    target.now_ms += 1_000
    tried = waiting_of(due(), NoRules(), NOW_MS, board.trouble)
    assert tried is not None
    assert tried.description.endswith("One task is being tried.")
    assert not tried.HasField("until")


def test_the_doctor_has_a_sentence_for_each_that_is_in_trouble(target: Target, board: TargetBoard) -> None:
    assert board.advice() == []
    target.breaker.heard(TargetHealth.FAILING, None, target.now_ms)
    [sentence] = board.advice()
    assert sentence.startswith("The stream of the queue 'orders' of the namespace 'default' fails: No answer")


def test_one_that_is_gone_is_never_tried(board: TargetBoard, target: Target) -> None:
    target.kind = "webhook"
    target.breaker.heard(TargetHealth.GONE, None, target.now_ms)
    found = board.trouble(ORDERS)
    assert found is not None
    assert found.wait_ms == math.inf
    waiting = waiting_of(due(), NoRules(), NOW_MS, board.trouble)
    assert waiting is not None
    assert "says that it is gone" in waiting.description


def test_other_queues_and_targets_that_are_well_wait_for_a_slot(target: Target, board: TargetBoard) -> None:
    well = waiting_of(due(), NoRules(), NOW_MS, board.trouble)
    target.breaker.heard(TargetHealth.FAILING, None, target.now_ms)
    other = waiting_of(due("mails"), NoRules(), NOW_MS, board.trouble)
    assert [each and each.reason for each in (well, other)] == [WAIT_REASON_SLOT, WAIT_REASON_SLOT]
