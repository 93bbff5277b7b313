"""Many tasks at once: packed into messages, several under way, answers put back into the order in which they came.

The packing of the next messages overlaps with the server's work on those before it. A message that fails
as a whole stops the feed: what is under way is waited for, and the error says what was stored. One bad task does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

from timerd.sdk.scheduling.answers import FailedTasks
from timerd.sdk.scheduling.batches import Batch, plain_of
from timerd.sdk.transport import Answer, Session
from timerd.sdk.values import (
    Answered,
    Due,
    InvalidTask,
    Item,
    MsClock,
    PartlyStored,
    Span,
    Task,
    Template,
    TimerdError,
    due_of,
    instant_ms,
    invalid,
    not_sendable,
    own_fields,
    payload_bytes,
    span_ms,
)

BulkItem = tuple[bytes | str, datetime | Span] | Item
OnProgress = Callable[[int], None]
# Enough to keep a server busy while the next ones are packed; little enough to bound the memory.
_MESSAGES_UNDER_WAY = 32
# Looked at together: one by one takes three times as long.
_TOGETHER = 25
_PLAIN = frozenset((bytes, str))


def batches_of(items: Iterable[BulkItem], template: Template, clock: MsClock) -> Iterator[Batch]:
    """Raises InvalidTask.

    Only what cannot change any more waits for others: a payload of a buffer that is filled anew, and a delay, which
    counts from now, are looked at when they come."""
    if not hasattr(items, "__iter__"):
        raise invalid(f"`items` must be a list of (payload, at or delay) or Item, not {items!r:.200}.", "items")
    batch, first = Batch(template, clock), 0
    for some in _together(items):
        plain = plain_of(some) if len(some) > 1 else None
        if plain is not None and batch.has_room(plain.size_bytes, len(some)):
            batch.extend(plain)
        else:
            for index, item in enumerate(some, first):
                if (now := _put(batch, item, index)) is not batch:
                    yield batch
                    batch = now
        first += len(some)
    if len(batch):
        yield batch


def _together(items: Iterable[BulkItem]) -> Iterator[list[Any]]:
    """In order; what stands beside others in a list is plain, one that is not stands alone."""
    some: list[Any] = []
    for item in items:
        if type(item) is tuple and len(item) == 2 and type(item[1]) is datetime and type(item[0]) in _PLAIN:
            some.append(item)
            if len(some) < _TOGETHER:
                continue
        else:
            if some:
                yield some
            some = [item]
        yield some
        some = []
    if some:
        yield some


def _put(batch: Batch, item: BulkItem, index: int) -> Batch:
    """The batch that it is in: the next one where this one is full."""
    try:
        payload, due = _parts_of(item)
        if not batch.has_room(len(payload)):
            batch = batch.next()
        if isinstance(item, Item) and (item.key is not None or own_fields(item)):
            batch.add_item(payload, due, item)
        else:
            batch.add(payload, due)
    except InvalidTask as wrong:
        raise wrong.of_item(index) from None
    return batch


def _parts_of(item: BulkItem) -> tuple[bytes, Due]:
    if isinstance(item, Item):
        return payload_bytes(item.payload), due_of(item.at, item.delay)
    try:
        payload, wanted = item
    except (TypeError, ValueError):
        raise invalid(f"must be (payload, at or delay) or an Item, not {item!r:.200}.", "items") from None
    if isinstance(wanted, datetime):
        return payload_bytes(payload), Due(instant_ms(wanted), False)
    return payload_bytes(payload), Due(span_ms(wanted), True)


def all_made(answered: Answered, count: int) -> list[Task]:
    return list(map(Task, repeat(answered), range(count)))


class Bulk:
    """One call. `made`: the tasks of an answered message, at once or when they are looked at."""

    def __init__(
        self,
        session: Session,
        namespace: str,
        template: Template,
        progress: OnProgress | None,
        made: Callable[[Answered, int], Sequence[Task]] = all_made,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._template = template
        self._progress = progress
        self._made = made
        self._slots = asyncio.Semaphore(_MESSAGES_UNDER_WAY)
        self._under_way = 0
        self._all_answered = asyncio.Event()
        self._parts: list[Sequence[Task]] = []
        self._sent = 0
        self._stored = 0
        self._error: TimerdError | None = None
        self._stopped = False

    async def run(self, batches: Iterable[Batch]) -> list[Sequence[Task]]:
        """The tasks of each message. Raises PartlyStored where some are not stored, or why nothing was."""
        try:
            for batch in batches:
                await self._slots.acquire()
                if self._stopped:
                    break
                self._send(batch)
                # The writer of the stream gets its turn between two packings.
                await asyncio.sleep(0)
        except InvalidTask as wrong:
            self._error = self._error or wrong
        except (TypeError, ValueError) as wrong:
            self._error = self._error or not_sendable(wrong)
        except Exception as raised:
            # The iterator of the items has failed: what is stored by then is told all the same.
            await self._answered()
            if not self._stored:
                raise
            raise PartlyStored(self._tasks(), TimerdError(f"The next items could not be read: {raised!r}")) from raised
        await self._answered()
        return self._outcome()

    async def _answered(self) -> None:
        while self._under_way:
            self._all_answered.clear()
            await self._all_answered.wait()

    def _send(self, batch: Batch) -> None:
        request = self._session.new_request()
        batch.write(request.schedule, self._namespace)
        place = len(self._parts)
        self._parts.append(())
        self._under_way += 1
        first, self._sent = self._sent, self._sent + len(batch)
        self._session.submit(request, lambda answer: self._on_answer(batch, first, place, answer))

    def _on_answer(self, batch: Batch, first: int, place: int, answer: Answer) -> None:
        self._under_way -= 1
        self._slots.release()
        answered: Answered
        if isinstance(answer, TimerdError):
            self._stopped = True
            self._error = self._error or answer
            answered = FailedTasks(self._template.queue, answer, batch.asked_ms())
        else:
            answered = batch.read(answer.schedule)
        part = self._parts[place] = self._made(answered, len(batch))
        all_stored = not isinstance(answer, TimerdError) and answer.schedule.HasField("placement")
        self._note(part, {} if all_stored else {n: e for n, task in enumerate(part, first) if (e := task.error)})
        self._all_answered.set()

    def _note(self, part: Sequence[Task], errors: dict[int, TimerdError]) -> None:
        self._stored += len(part) - len(errors)
        if errors and self._error is None:
            index, error = next(iter(errors.items()))
            self._error = error.of_item(index)
        if self._progress is not None:
            self._progress(self._stored)

    def _outcome(self) -> list[Sequence[Task]]:
        if self._error is None:
            return self._parts
        if self._stored:
            raise PartlyStored(self._tasks(), self._error) from self._error
        raise self._error

    def _tasks(self) -> list[Task]:
        return [task for part in self._parts for task in part]
