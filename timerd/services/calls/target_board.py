"""Which targets of queues are in trouble, for calls that are asked why a task waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from timerd.core.sinks.trouble import TargetTrouble
from timerd.core.taken import QueueKey
from timerd.model.counted import counted

# More sentences of one kind than this help nobody.
MOST_NAMED = 5


class WatchedTarget(Protocol):
    """A sink of one queue that posts or appends."""

    @property
    def queue(self) -> QueueKey: ...

    def trouble(self) -> TargetTrouble | None:
        """None: it takes tasks."""
        ...


class TargetBoard:
    """Of one instance: each sends the tasks that it holds."""

    def __init__(self) -> None:
        self._targets: dict[QueueKey, WatchedTarget] = {}

    def watch(self, targets: Iterable[WatchedTarget]) -> None:
        self._targets.update({target.queue: target for target in targets})

    def trouble(self, queue: QueueKey) -> TargetTrouble | None:
        target = self._targets.get(queue)
        return target.trouble() if target is not None else None

    def advice(self) -> list[str]:
        """A sentence for each that is in trouble."""
        found = [(queue, trouble) for queue, target in self._targets.items() if (trouble := target.trouble())]
        said = [_advice(queue, trouble) for queue, trouble in found]
        more = len(said) - MOST_NAMED
        others = f"{counted(more, 'more target', 'are')} in trouble: the log names what it is."
        return [*said[:MOST_NAMED], *([others] if more > 0 else [])]


def _advice(queue: QueueKey, trouble: TargetTrouble) -> str:
    return (
        f"The {trouble.kind} of the queue {queue.queue!r} of the namespace {queue.namespace!r} {trouble.found} "
        "Its tasks wait, and one is tried now and then."
    )
