"""What a reply says about each task of its message, in the two forms that replies have.

All stored: one placement for all, ids are composed when asked for. Otherwise: one result per task.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from timerd.sdk.values import (
    Answered,
    Composer,
    ItemOutcome,
    OutcomeUnknown,
    TimerdError,
    error_of_problem,
    ms_of_timestamp,
)
from timerd.v1 import timer_service_pb2 as pb

_GOOD = frozenset({ItemOutcome.STORED, ItemOutcome.KEPT})


class PlacedTasks:
    """All of the message were stored."""

    def __init__(self, queue: str, composer: Composer, fire_at_ms: Sequence[int], keys: Mapping[int, str]) -> None:
        self.queue = queue
        self._composer = composer
        self._fire_at_ms = fire_at_ms
        self._keys = keys

    def task_id(self, index: int) -> str:
        return self._composer.task_id(index)

    def fire_at_ms(self, index: int) -> int:
        return self._fire_at_ms[index]

    def key(self, index: int) -> str:
        return self._keys.get(index, "")

    def outcome(self, index: int) -> ItemOutcome:
        return ItemOutcome.STORED

    def error(self, index: int) -> TimerdError | None:
        return None


class ListedTasks:
    """Each of the message has a result of its own."""

    def __init__(
        self, queue: str, results: Iterable[pb.ItemResult], asked_ms: Sequence[int], keys: Mapping[int, str]
    ) -> None:
        self.queue = queue
        self._results = {result.index: result for result in results}
        self._asked_ms = asked_ms
        self._keys = keys

    def _result(self, index: int) -> pb.ItemResult:
        return self._results.get(index) or pb.ItemResult(index=index)

    def task_id(self, index: int) -> str:
        return self._result(index).task_id

    def fire_at_ms(self, index: int) -> int:
        result = self._result(index)
        return ms_of_timestamp(result.fire_time) if result.HasField("fire_time") else self._asked_ms[index]

    def key(self, index: int) -> str:
        return self._keys.get(index, "")

    def outcome(self, index: int) -> ItemOutcome:
        return ItemOutcome(self._result(index).outcome) or ItemOutcome.UNKNOWN

    def error(self, index: int) -> TimerdError | None:
        if self.outcome(index) in _GOOD:
            return None
        problem = self._result(index).problem
        if problem.reason:
            return error_of_problem(problem)
        return OutcomeUnknown(
            f"The server does not know whether the task was stored; scheduling it again may store it twice. "
            f"{problem.message}".rstrip()
        )


class FailedTasks:
    """The message failed as a whole, or was never sent."""

    def __init__(self, queue: str, error: TimerdError, asked_ms: Sequence[int]) -> None:
        self.queue = queue
        self._error = error
        self._asked_ms = asked_ms

    def task_id(self, index: int) -> str:
        return ""

    def fire_at_ms(self, index: int) -> int:
        return self._asked_ms[index]

    def key(self, index: int) -> str:
        return ""

    def outcome(self, index: int) -> ItemOutcome:
        return ItemOutcome.NOT_STORED if self._error.reason else ItemOutcome.UNKNOWN

    def error(self, index: int) -> TimerdError | None:
        return self._error


def read_answer(
    queue: str, response: pb.ScheduleBatchResponse, asked_ms: Sequence[int], keys: Mapping[int, str]
) -> Answered:
    """`asked_ms` are the fire times as requested; those of delays are the server's to say."""
    if not response.HasField("placement"):
        return ListedTasks(queue, response.results, asked_ms, keys)
    fire_at_ms = array("q", response.fire_at_ms) if response.fire_at_ms else asked_ms
    return PlacedTasks(queue, Composer(response.placement, fire_at_ms), fire_at_ms, keys)
