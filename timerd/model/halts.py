"""A key that stands still since a task of it failed for good: the note that names the task."""

from __future__ import annotations

from typing import NamedTuple

from timerd.model.identity import generation_of
from timerd.model.storage import DeadLetter, Entry, EntryKey

HALTED = b"halted keys"


class Halt(NamedTuple):
    """`task_id`: of the dead letter, 44 bytes. `since_ms`: when it died. `generation`: the one that died, for what is
    redriven may die again, and who removes the note of its first death must not remove that of the second (rule F7 of
    tests/models/redrives.pml)."""

    namespace: str
    queue: str
    ordering_key: str
    task_id: bytes
    since_ms: int
    generation: int = 0

    @classmethod
    def of(cls, letter: DeadLetter) -> Halt:
        queue, generation = (letter.template.namespace, letter.template.queue), generation_of(letter.key.version)
        return cls(*queue, letter.ordering_key, letter.task_id, letter.died_at_ms, generation)

    @property
    def name(self) -> EntryKey:
        """Those of a queue lie side by side, by key."""
        of_key = names_of(self.namespace, self.queue, self.ordering_key)
        return EntryKey(HALTED, of_key + f"{self.task_id.hex()}\0{self.generation}".encode())

    def to_entry(self) -> Entry:
        return Entry(self.name, b"1")


def names_of(namespace: str, queue: str, ordering_key: str) -> bytes:
    """With which the names of all notes of the key begin."""
    return f"{namespace}\0{queue}\0{ordering_key.encode().hex()}\0".encode()


def halt_of(entry: Entry) -> Halt:
    """As far as the note says it."""
    namespace, queue, key, task, generation = entry.key.name.decode().split("\0")
    return Halt(namespace, queue, bytes.fromhex(key).decode(), bytes.fromhex(task), 0, int(generation))
