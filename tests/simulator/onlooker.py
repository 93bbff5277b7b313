"""One who looks on at every run: what is told must fit together, whatever fails."""

from __future__ import annotations

from timerd.core.dispatch import TailKind, TailLine, TailReader
from timerd.model.identity import TaskId


class Onlooker(TailReader):
    """Raises AssertionError where the end of a delivery is told that was not sent, or was over."""

    def __init__(self) -> None:
        super().__init__("default", "", 1_000_000, lambda: None)
        self._with_workers: dict[TaskId, TailLine] = {}

    def put(self, line: TailLine) -> None:
        if line.kind is TailKind.SENT:
            assert line.sent_ms >= line.due_ms, f"{line} was early"
            self._with_workers[line.task_id] = line
        else:
            sent = self._with_workers.pop(line.task_id, None)
            assert sent is not None, f"{line} was not sent"
            assert (sent.sent_ms, sent.attempt, sent.worker) == line[5:8], f"{line} is the end of another delivery"
        self.left_out += 1
