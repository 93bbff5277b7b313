"""Tasks that come as columns: payloads in one sequence, instants in another.

A program that reads tasks from a table or a file has them like this. They go to the server and come back without an
object for each; only where a payload is no bytes among others that are, or something is wrong, they are looked at one
by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from operator import index as whole
from typing import Any, NamedTuple, overload

from timerd.sdk.scheduling.batches import MAX_TASKS, Batch, plain_payloads
from timerd.sdk.values import LAST_MS, Answered, Due, InvalidTask, MsClock, Task, Template, invalid, payload_bytes

# Of a column that says what it holds: whole numbers, or whatever Python has.
_KINDS = "iuO"


class KeyColumns(NamedTuple):
    """Of each task; None: all have that of the template."""

    ordering_keys: Sequence[str | None] | None = None
    limit_keys: Sequence[str | None] | None = None

    def given(self) -> list[tuple[str, Sequence[str | None]]]:
        """By their names."""
        return [(name, column) for name, column in zip(self._fields, self, strict=True) if column is not None]


NO_KEYS = KeyColumns()


def batches_of_columns(
    payloads: Sequence[bytes | str],
    fire_at_ms: Sequence[int],
    template: Template,
    clock: MsClock,
    keys: KeyColumns = NO_KEYS,
) -> Iterator[Batch]:
    """Raises InvalidTask, with the number of the item where it is one."""
    columns: list[tuple[str, Sequence[object]]] = [("payloads", payloads), ("at_ms", fire_at_ms), *keys.given()]
    counts = [_length(column, name) for name, column in columns]
    for (name, _), count in zip(columns, counts, strict=True):
        if count != counts[0]:
            raise invalid(f"`{name}` has {count} entries and `payloads` has {counts[0]}: give one for each.", name)
    batches = _batches(payloads, fire_at_ms, template, clock)
    return _with_keys(batches, keys) if keys.given() else batches


def _batches(
    payloads: Sequence[bytes | str], fire_at_ms: Sequence[int], template: Template, clock: MsClock
) -> Iterator[Batch]:
    batch = Batch(template, clock)
    for start in range(0, len(payloads), MAX_TASKS):
        some, dues = _part(payloads, start), _dues(_part(fire_at_ms, start), start)
        if len(some) != len(dues):
            raise invalid("The columns were changed while they were read.", "payloads")
        plain = plain_payloads(some)
        for filled in _one_by_one(batch, some, dues, start) if plain is None else batch.extended(plain, dues):
            if filled is not batch and len(batch):
                yield batch
            batch = filled
    if len(batch):
        yield batch


def _with_keys(batches: Iterator[Batch], keys: KeyColumns) -> Iterator[Batch]:
    """A batch is taken as it comes: so many tasks of the columns are in it."""
    at = 0
    for batch in batches:
        stop = at + len(batch)
        for name, column in keys.given():
            part = list(getattr(column, "iloc", column)[at:stop])
            batch.give_keys(name, [_key(key, name, number) for number, key in enumerate(part, at)])
        at = stop
        yield batch


def _key(key: object, name: str, number: int) -> str:
    """Empty: as the template says."""
    if key is None or isinstance(key, str):
        return key or ""
    raise invalid(f"`{name}` must be texts or None, not {key!r:.200}.", name).of_item(number)


def _length(column: Sequence[object], name: str) -> int:
    try:
        # What is cut into pieces must be one that can be; a text is one as well, and not meant.
        _part(column, 0)
        if not isinstance(column, (str, bytes, bytearray, memoryview)):
            return len(column)
    except (TypeError, KeyError, IndexError):
        pass
    raise invalid(f"`{name}` must be a list, with one entry for each task, not {column!r:.200}.", name)


def _part(column: Any, start: int) -> Any:  # noqa: ANN401 - lists, arrays, columns of tables
    """By place: a column of pandas' is asked by label otherwise."""
    return getattr(column, "iloc", column)[start : start + MAX_TASKS]


def _dues(some: Any, start: int) -> list[int]:  # noqa: ANN401
    """A column of numpy's that holds no whole numbers (spans of time) would give some all the same."""
    is_whole = getattr(getattr(some, "dtype", None), "kind", "i") in _KINDS
    listed: list[int] = some.tolist() if is_whole and hasattr(some, "tolist") else list(some)
    if set(map(type, listed)) == {int} and min(listed) >= 0 and max(listed) <= LAST_MS:
        return listed
    return [_due(due, number) for number, due in enumerate(listed, start)]


def _due(due: Any, number: int) -> int:  # noqa: ANN401
    try:
        due_ms = -1 if isinstance(due, bool) else whole(due)
    except TypeError:
        due_ms = -1
    if 0 <= due_ms <= LAST_MS:
        return due_ms
    wrong = invalid(f"`at_ms` must be whole milliseconds since 1970, up to the year 9999, not {due!r:.200}.", "at_ms")
    raise wrong.of_item(number)


def _one_by_one(batch: Batch, payloads: Iterable[bytes | str], dues: Sequence[int], start: int) -> Iterator[Batch]:
    for number, (payload, due_ms) in enumerate(zip(payloads, dues, strict=True), start):
        try:
            encoded = payload_bytes(payload)
        except InvalidTask as wrong:
            raise wrong.of_item(number) from None
        if not batch.has_room(len(encoded)):
            yield batch
            batch = batch.next()
        batch.add(encoded, Due(due_ms, is_delay=False))
    yield batch


class MadeWhenSeen(Sequence[Task]):
    """`count` tasks, each made by `at` when it is looked at, its id too."""

    def __init__(self, count: int, at: Callable[[int], Task]) -> None:
        self._count = count
        self._at = at

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        places = range(self._count)[index]
        return self._at(places) if isinstance(places, int) else [self._at(at) for at in places]

    def __repr__(self) -> str:
        return f"<{self._count} tasks>"


class Part(MadeWhenSeen):
    """The tasks of one answered message."""

    def __init__(self, answered: Answered, count: int) -> None:
        super().__init__(count, partial(Task, answered))

    def __iter__(self) -> Iterator[Task]:
        return map(self._at, range(self._count))


class Tasks(MadeWhenSeen):
    """The tasks of a call, in the order of its columns."""

    def __init__(self, parts: Iterable[Sequence[Task]]) -> None:
        self._parts = [part for part in parts if part]
        *self._starts, count = accumulate(map(len, self._parts), initial=0)
        super().__init__(count, self._of_part)

    def __iter__(self) -> Iterator[Task]:
        return (task for part in self._parts for task in part)

    def _of_part(self, place: int) -> Task:
        part = bisect_right(self._starts, place) - 1
        return self._parts[part][place - self._starts[part]]
