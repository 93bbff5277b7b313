"""Tasks that come as columns: payloads in one sequence, instants in another.

Whoever reads tasks from a table or a file has them like this. Nothing is looked at one by one then, on the way to the
server or back: a task of `schedule_many` costs its caller a microsecond and a half, one of a column a fifth of that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import overload

from timerd.sdk.batches import MAX_TASKS, Batch, Plain
from timerd.sdk.checks import MAX_PAYLOAD_BYTES, invalid, payload_bytes
from timerd.sdk.errors import InvalidTask
from timerd.sdk.templates import Template
from timerd.sdk.times import Due, MsClock
from timerd.sdk.values import Answered, Task

# What a datetime can say, and so what the ids and replies can: the years 1970 to 9999.
_LAST_MS = 253_402_300_799_999


def batches_of_columns(
    payloads: Sequence[bytes | str], fire_at_ms: Sequence[int], template: Template, clock: MsClock
) -> Iterator[Batch]:
    """Raises InvalidTask, with the number of the item where it is one."""
    _check_lengths(payloads, fire_at_ms)
    for start in range(0, len(payloads), MAX_TASKS):
        end = min(start + MAX_TASKS, len(payloads))
        batch, dues = Batch(template, clock), _dues(fire_at_ms, start, end)
        plain = _plain(payloads[start:end], dues)
        if plain is not None and batch.has_room(plain.size_bytes, end - start):
            batch.extend(plain)
            yield batch
        else:
            yield from _one_by_one(batch, payloads, dues, start)


def _check_lengths(payloads: Sequence[bytes | str], fire_at_ms: Sequence[int]) -> None:
    for name, column in (("payloads", payloads), ("at_ms", fire_at_ms)):
        if isinstance(column, (str, bytes)) or not (hasattr(column, "__len__") and hasattr(column, "__getitem__")):
            raise invalid(f"`{name}` must be a list, with one entry for each task, not {column!r:.200}.", name)
    if len(payloads) != len(fire_at_ms):
        raise invalid(
            f"`at_ms` has {len(fire_at_ms)} entries and `payloads` has {len(payloads)}: give one for each.", "at_ms"
        )


def _dues(fire_at_ms: Sequence[int], start: int, end: int) -> list[int]:
    """Also of an array or of a column of numpy's, whose numbers are no `int`."""
    some = fire_at_ms[start:end]
    dues: list[int] = some.tolist() if hasattr(some, "tolist") else list(some)
    if set(map(type, dues)) != {int} or min(dues) < 0 or max(dues) > _LAST_MS:
        raise _bad_due(dues, start)
    return dues


def _bad_due(dues: Sequence[object], start: int) -> InvalidTask:
    at, due = next((n, due) for n, due in enumerate(dues) if type(due) is not int or not 0 <= due <= _LAST_MS)
    wrong = invalid(f"`at_ms` must be whole milliseconds since 1970, up to the year 9999, not {due!r:.200}.", "at_ms")
    return wrong.of_item(start + at)


def _plain(payloads: Sequence[bytes | str], dues: list[int]) -> Plain | None:
    """None: they are not all bytes of a size that is allowed."""
    if set(map(type, payloads)) != {bytes}:
        return None
    sizes = list(map(len, payloads))
    return Plain(tuple(payloads), dues, sum(sizes)) if max(sizes) <= MAX_PAYLOAD_BYTES else None  # type: ignore[arg-type]


def _one_by_one(batch: Batch, payloads: Sequence[bytes | str], dues: Sequence[int], start: int) -> Iterator[Batch]:
    for number, due_ms in enumerate(dues, start):
        try:
            payload = payload_bytes(payloads[number])
        except InvalidTask as wrong:
            raise wrong.of_item(number) from None
        if not batch.has_room(len(payload)):
            yield batch
            batch = batch.next()
        batch.add(payload, Due(due_ms, is_delay=False))
    yield batch


class Part(Sequence[Task]):
    """The tasks of one answered message, each made when it is looked at."""

    def __init__(self, answered: Answered, count: int) -> None:
        self._answered = answered
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Task]:
        return map(Task, repeat(self._answered), range(self._count))

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        places = range(self._count)[index]
        return Task(self._answered, places) if isinstance(places, int) else [Task(self._answered, at) for at in places]


class Tasks(Sequence[Task]):
    """The tasks of a call, in the order of its columns. A task is made each time that it is looked at, its id too."""

    def __init__(self, parts: Iterable[Sequence[Task]]) -> None:
        self._parts = [part for part in parts if part]
        self._starts: list[int] = []
        count = 0
        for part in self._parts:
            self._starts.append(count)
            count += len(part)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Task]:
        return (task for part in self._parts for task in part)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        places = range(self._count)[index]
        return self._at(places) if isinstance(places, int) else [self._at(at) for at in places]

    def _at(self, place: int) -> Task:
        part = bisect_right(self._starts, place) - 1
        return self._parts[part][place - self._starts[part]]

    def __repr__(self) -> str:
        return f"<{self._count} tasks>"
