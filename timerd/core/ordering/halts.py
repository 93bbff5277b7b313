"""Keys that stand still since a task of theirs failed for good (HALT; rules F1 to F3, F5 of tests/models/failure.pml).

What halts a key is its dead letter. A note names it, so that it is found again after a restart: the note, THEN the
end; all notes, THEN the first task of any key. While the task lives again in its old place the note stays, and lets
nothing go that stands behind it: its row may turn up after those. What stands before it goes, for that may be another
task that lives again: each would wait for the end of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, KeysView, Set
from dataclasses import dataclass

from timerd.core.taken import QueueKey
from timerd.model.halts import Halt
from timerd.model.identity import RowKey, TaskId, generation_of
from timerd.model.ordering import OrderPlace

KeyName = tuple[QueueKey, str]


@dataclass(slots=True)
class Life:
    """Of a task that has died and lives again in its place. `generation`: the one that died; `place`: None until it is
    known."""

    task_id: bytes
    generation: int
    place: OrderPlace | None = None


class Halts:
    """Of one instance. `is_read`: whether the notes of before were read; until then nothing that has a key is sent.
    `lifted`: notes to be removed, for their tasks have ended."""

    def __init__(self) -> None:
        self.is_read = True
        self.lifted: list[Halt] = []
        self._halts: dict[KeyName, dict[bytes, Halt]] = {}
        self._by_task: dict[bytes, Halt] = {}
        self._lives: dict[bytes, Life] = {}

    def __iter__(self) -> Iterator[Halt]:
        """Those whose tasks are dead."""
        living = {life.task_id for life in self._lives.values()}
        return (halt for task_id, halt in self._by_task.items() if task_id not in living)

    def add(self, halt: Halt) -> None:
        """A later death of the task takes the place of an earlier one, whose note is to go."""
        known = self._by_task.get(halt.task_id)
        if known is not None and known.generation > halt.generation:
            self.lifted.append(halt)
            return
        if known is not None and known.generation < halt.generation:
            self.lifted.append(known)
        self._by_task[halt.task_id] = halt
        self._halts.setdefault(_name(halt), {})[halt.task_id] = halt
        self._lives.pop(_digest(halt), None)

    def remove(self, halt: Halt) -> None:
        """Another task may halt the key all the same, or a later death of this one."""
        known = self._by_task.get(halt.task_id)
        if known is None or known.generation != halt.generation:
            return
        name = _name(halt)
        halts = self._halts.get(name, {})
        halts.pop(halt.task_id, None)
        self._by_task.pop(halt.task_id, None)
        self._lives.pop(_digest(halt), None)
        if not halts:
            self._halts.pop(name, None)

    def find(self, queue: QueueKey, ordering_key: str) -> Halt | None:
        """What halts the key, the first of several; None: nothing does."""
        halts = self._halts.get((queue, ordering_key), {}).values() if self._halts else ()
        dead = [halt for halt in halts if not self.lives(halt)]
        return min(dead, key=lambda halt: halt.since_ms, default=None)

    def lets_go(self, queue: QueueKey, ordering_key: str, digest: bytes, place: OrderPlace) -> bool:
        """Whether this task of the key may be sent: nothing halts it but the task itself, or what lives again behind
        it."""
        halts = self._halts.get((queue, ordering_key)) if self._halts else None
        return halts is None or all(_digest(halt) == digest or self._is_behind(halt, place) for halt in halts.values())

    def _is_behind(self, halt: Halt, place: OrderPlace) -> bool:
        life = self._lives.get(_digest(halt))
        return life is not None and life.place is not None and place < life.place

    def of_key(self, queue: QueueKey, ordering_key: str) -> Collection[Halt]:
        """Whatever halts the key, also where that task lives again."""
        return self._halts.get((queue, ordering_key), {}).values()

    def met(self, queue: QueueKey, ordering_key: str, row: RowKey, place: OrderPlace, *, revives: bool) -> None:
        """The row waits to be sent, in that place of its key. `revives`: if its task halts the key, it was redriven by
        another instance."""
        for halt in self.of_key(queue, ordering_key) if self._halts else ():
            if _digest(halt) != row.digest:
                continue
            if revives and not self.lives(halt):
                self.revive(halt, generation_of(row.version) - 1)
            if (life := self._lives.get(row.digest)) is not None:
                life.place = place

    @property
    def tasks(self) -> KeysView[bytes]:
        """The ids of those that halt their keys."""
        return self._by_task.keys()

    def of_task(self, task_id: bytes) -> Halt | None:
        return self._by_task.get(task_id)

    def names(self) -> Set[KeyName]:
        """The keys that stand still."""
        return {_name(halt) for halt in self} if self._lives else self._halts.keys()

    # -- tasks that live again ------------------------------------------------------------------------------------

    def revive(self, halt: Halt, generation: int, place: OrderPlace | None = None) -> None:
        """Its task lives again in its place, or may do so by now: this generation was the dead one."""
        self._lives[_digest(halt)] = Life(halt.task_id, generation, place)

    def lives(self, halt: Halt) -> bool:
        return _digest(halt) in self._lives

    def is_only_one(self, halt: Halt) -> bool:
        """Whether it alone halts its key, so that nothing of the key has started since."""
        return len(self._halts.get(_name(halt), ())) == 1

    def revived(self) -> list[Halt]:
        """Whose tasks live again in their places."""
        return [self._by_task[life.task_id] for life in self._lives.values()]

    @property
    def living(self) -> Set[bytes]:
        """Digests of tasks that live again in their places."""
        return self._lives.keys()

    def ended(self, key: RowKey) -> Halt | None:
        """The task of the row has ended, durably, and not by a dead letter that halts its key anew: what it kept halted
        goes on."""
        life = self._lives.get(key.digest)
        if life is None or generation_of(key.version) <= life.generation:
            return None
        halt = self._by_task[life.task_id]
        self.remove(halt)
        self.lifted.append(halt)
        return halt


def _name(halt: Halt) -> KeyName:
    return QueueKey(halt.namespace, halt.queue), halt.ordering_key


def _digest(halt: Halt) -> bytes:
    return TaskId.from_bytes(halt.task_id).digest
