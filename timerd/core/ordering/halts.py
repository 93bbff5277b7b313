"""Keys that stand still since a task of theirs failed for good (HALT; rules F1 to F3 of tests/models/failure.pml).

What halts a key is its dead letter. A note names it, so that it is found again after a restart: the note, THEN the
end; all notes, THEN the first task of any key.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView

from timerd.core.taken import QueueKey
from timerd.model.halts import Halt


class Halts:
    """Of one instance. `is_read`: whether the notes of before were read; until then nothing that has a key is sent."""

    def __init__(self) -> None:
        self.is_read = True
        self._halts: dict[tuple[QueueKey, str], dict[bytes, Halt]] = {}
        self._by_task: dict[bytes, Halt] = {}

    def __iter__(self) -> Iterator[Halt]:
        return iter(self._by_task.values())

    def add(self, halt: Halt) -> None:
        self._by_task[halt.task_id] = halt
        self._halts.setdefault(_name(halt), {})[halt.task_id] = halt

    def remove(self, halt: Halt) -> None:
        """Another task may halt the key all the same."""
        name = _name(halt)
        halts = self._halts.get(name, {})
        halts.pop(halt.task_id, None)
        self._by_task.pop(halt.task_id, None)
        if not halts:
            self._halts.pop(name, None)

    def find(self, queue: QueueKey, ordering_key: str) -> Halt | None:
        """What halts the key, the first of several; None: nothing does."""
        halts = self._halts.get((queue, ordering_key)) if self._halts else None
        return min(halts.values(), key=lambda halt: halt.since_ms) if halts else None

    def names(self) -> KeysView[tuple[QueueKey, str]]:
        """The keys that stand still."""
        return self._halts.keys()

    def of_task(self, task_id: bytes) -> Halt | None:
        return self._by_task.get(task_id)

    def counts(self) -> dict[QueueKey, int]:
        """Of each queue, how many of its keys stand still."""
        found: dict[QueueKey, int] = {}
        for queue, _ in self._halts:
            found[queue] = found.get(queue, 0) + 1
        return found


def _name(halt: Halt) -> tuple[QueueKey, str]:
    return QueueKey(halt.namespace, halt.queue), halt.ordering_key
