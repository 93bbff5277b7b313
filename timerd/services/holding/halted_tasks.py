"""What has become of a task that halts its ordering key, by what is stored of it."""

from __future__ import annotations

from enum import Enum

from timerd.core.protocol import Located, locate
from timerd.model.identity import TaskId, generation_of
from timerd.model.registers import MoveState
from timerd.model.settle import Outcome
from timerd.model.storage import MarkKind
from timerd.ports import Store
from timerd.services.holding.driving import Performs, drive


class HaltedTask(Enum):
    """IN_PLACE: it lives, where it stands among the tasks of its key. GONE: neither."""

    DEAD = "dead"
    IN_PLACE = "in place"
    GONE = "gone"


class HaltedTasks:
    """Finds them."""

    def __init__(self, store: Store, runner: Performs) -> None:
        self._store = store
        self._runner = runner

    async def find(self, task: TaskId, generation: int) -> HaltedTask:
        """`generation`: the one that died. A later one that has died as well has a note of its own, where it halts."""
        here = await drive(locate(task), self._runner)
        if here.rows is None or here.ending.outcome is Outcome.DEAD:
            dead_letters = await self._store.get_dead_letters([task.to_bytes()])
            is_dead = any(generation_of(letter.key.version) == generation for letter in dead_letters)
            return HaltedTask.DEAD if is_dead else HaltedTask.GONE
        return HaltedTask.IN_PLACE if _is_in_place(here) else HaltedTask.GONE


def _is_in_place(here: Located) -> bool:
    over = any(here.first(kind) is not None for kind in (MarkKind.CANCELLED, MarkKind.PURGED))
    if over or here.ending.outcome is not None or here.rows is None:
        return False
    was_moved = here.move is not None and here.move.state is MoveState.MOVED
    return not was_moved or here.rows.extra_of(0).order_position_ms >= 0
