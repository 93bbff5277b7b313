"""A key that stands still since a task of it failed for good: the note that names the task."""

from __future__ import annotations

from typing import NamedTuple

from timerd.model.storage import DeadLetter, Entry, EntryKey

HALTED = b"halted keys"


class Halt(NamedTuple):
    """`task_id`: of the dead letter, 44 bytes. `since_ms`: when it died."""

    namespace: str
    queue: str
    ordering_key: str
    task_id: bytes
    since_ms: int

    @classmethod
    def of(cls, letter: DeadLetter) -> Halt:
        template = letter.template
        return cls(template.namespace, template.queue, letter.ordering_key, letter.task_id, letter.died_at_ms)

    @property
    def name(self) -> EntryKey:
        """Those of a queue lie side by side, by key."""
        return EntryKey(HALTED, names_of(self.namespace, self.queue, self.ordering_key) + self.task_id.hex().encode())

    def to_entry(self) -> Entry:
        return Entry(self.name, b"1")


def names_of(namespace: str, queue: str, ordering_key: str) -> bytes:
    """With which the names of all notes of the key begin."""
    return f"{namespace}\0{queue}\0{ordering_key.encode().hex()}\0".encode()


def halt_of(entry: Entry) -> Halt:
    """As far as the note says it."""
    namespace, queue, key, _ = entry.key.name.decode().split("\0")
    return Halt(namespace, queue, bytes.fromhex(key).decode(), task_of(entry), 0)


def task_of(entry: Entry) -> bytes:
    """The id of the task that the note names."""
    return bytes.fromhex(entry.key.name.decode().rpartition("\0")[2])
