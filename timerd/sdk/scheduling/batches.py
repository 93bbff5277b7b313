"""Tasks that travel in one message: collected, then written as columns where nothing differs from task to task.

The columns form is what the server takes in fastest; a message falls back to the items form only when a task has a key,
a template of its own, or when instants and delays are mixed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, NamedTuple

from timerd.sdk.scheduling.answers import read_answer
from timerd.sdk.values import (
    EPOCH,
    MAX_PAYLOAD_BYTES,
    Answered,
    Due,
    Item,
    MsClock,
    Template,
    duration_of_ms,
    new_request_id,
    now_ms,
    optional_name,
    timestamp_of_ms,
)
from timerd.v1 import timer_service_pb2 as pb

MAX_TASKS = 1000
# Below 1 MiB with everything that goes around the payloads.
MAX_BYTES = 900 * 1024
_TASK_BYTES = 24
_MS = timedelta(milliseconds=1)
# Well below the day for which calls are remembered.
_LONG_PAST_MS = 12 * 3_600_000


class Plain(NamedTuple):
    """Tasks that have nothing but a payload and an instant."""

    payloads: Sequence[bytes]
    fire_at_ms: list[int]
    size_bytes: int


def plain_of(pairs: Sequence[tuple[bytes | str, datetime]]) -> Plain | None:
    """None: at least one is wrong, or they are not all of one kind; who looks at each of them finds out which."""
    payloads, moments = zip(*pairs, strict=True)
    try:
        # Rounded up.
        fire_at_ms = [-((EPOCH - moment) // _MS) for moment in moments]
    except TypeError:
        # No time zone.
        return None
    plain = plain_payloads(payloads)
    return Plain(plain, fire_at_ms, sum(map(len, plain))) if plain is not None else None


def plain_payloads(payloads: Sequence[object]) -> Sequence[bytes] | None:
    """Of one kind and of allowed sizes; None: they are not, or one of them is half a character."""
    kinds = set(map(type, payloads))
    encoded: Any = payloads
    if kinds == {str}:
        try:
            encoded = [*map(str.encode, encoded)]
        except UnicodeEncodeError:
            return None
    elif kinds != {bytes}:
        return None
    return encoded if max(map(len, encoded)) <= MAX_PAYLOAD_BYTES else None


class Batch:
    """Tasks of one template, at most MAX_TASKS and about MAX_BYTES (or one task)."""

    def __init__(self, template: Template, clock: MsClock = now_ms) -> None:
        self.template = template
        self._clock = clock
        self._template = template.to_proto()
        self._payloads: list[bytes] = []
        self._dues = array("q")
        self._is_delay = bytearray()
        self._delays = 0
        self._request_time_ms = 0
        # Of tasks that differ: key, and the template of its own where it has one.
        self._items: dict[int, tuple[str, Template | None]] = {}
        # ordering_keys, limit_keys: of each task; empty: as the template says.
        self._keys: dict[str, Sequence[str]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._dues)

    def next(self) -> Batch:
        """An empty one of the same kind."""
        return Batch(self.template, self._clock)

    def has_room(self, payload_bytes: int, tasks: int = 1) -> bool:
        """For one task there always is in an empty one."""
        if tasks == 1 and not self._dues:
            return True
        size_bytes = self._bytes + payload_bytes + _TASK_BYTES * tasks
        return len(self._dues) + tasks <= MAX_TASKS and size_bytes <= MAX_BYTES

    def extended(self, payloads: Sequence[bytes], fire_at_ms: list[int]) -> Iterator[Batch]:
        """Takes all of them in: yields what is full, and last the one that is open."""
        ends_bytes = [*accumulate([len(payload) + _TASK_BYTES for payload in payloads], initial=0)]
        batch, at = self, 0
        while at < len(payloads):
            room_bytes = MAX_BYTES - batch._bytes
            stop = bisect_right(ends_bytes, ends_bytes[at] + room_bytes) - 1
            stop = max(min(stop, at + MAX_TASKS - len(batch)), at + (not len(batch)))
            part = payloads[at:stop]
            batch.extend(Plain(part, fire_at_ms[at:stop], ends_bytes[stop] - ends_bytes[at] - _TASK_BYTES * len(part)))
            at = stop
            if at < len(payloads):
                yield batch
                batch = batch.next()
        yield batch

    def extend(self, plain: Plain) -> None:
        self._dues.extend(plain.fire_at_ms)
        self._is_delay.extend(bytes(len(plain.payloads)))
        self._payloads.extend(plain.payloads)
        self._bytes += plain.size_bytes + _TASK_BYTES * len(plain.payloads)

    def add(self, payload: bytes, due: Due) -> int:
        """The index of the task in the message."""
        ms = due.ms
        if due.is_delay:
            ms += self._since_request_ms()
            self._delays += 1
        self._dues.append(ms)
        self._is_delay.append(due.is_delay)
        self._payloads.append(payload)
        self._bytes += len(payload) + _TASK_BYTES
        return len(self._dues) - 1

    def add_item(self, payload: bytes, due: Due, item: Item) -> None:
        """A task that differs from the template."""
        key, own = optional_name(item.key, "key") or "", self.template.with_item(item)
        differs = own != self.template
        self._items[self.add(payload, due)] = key, own if differs else None
        self._bytes += len(key) + (own.to_proto().ByteSize() if differs else 0)

    def give_keys(self, name: str, keys: Sequence[str]) -> None:
        """`name`: ordering_keys or limit_keys; one for each task, of which none differs in other ways."""
        self._keys[name] = keys

    def _is_long_past(self) -> bool:
        """Then the server could not tell the message from the repeat of an old one."""
        return bool(self._dues) and min(self._dues) < self._clock() - _LONG_PAST_MS

    def _since_request_ms(self) -> int:
        """Delays of one message count from one instant, so that a later call waits the longer by what lies between."""
        now = self._clock()
        if not self._request_time_ms:
            self._request_time_ms = now
        return max(0, now - self._request_time_ms)

    def asked_ms(self) -> Sequence[int]:
        if not self._delays:
            return self._dues
        return [due.ms + self._request_time_ms * due.is_delay for due in self._due_list()]

    def write_again(self, request: pb.ScheduleBatchRequest, namespace: str, request_id: str) -> None:
        """With a request_id by which its caller may make it again: nothing in it depends on the time. Delays count from
        the first try that the server gets."""
        request.namespace, request.request_id = namespace, request_id
        self._write_tasks(request)

    def write(self, request: pb.ScheduleBatchRequest, namespace: str, request_id: str | None = None) -> None:
        """With an id that no other message has: its own, or a new one. It says when it was made, if it has delays,
        takes keys from other tasks, or is for an instant so long ago that the server asks."""
        request.namespace = namespace
        request.request_id = request_id or new_request_id()
        if self._delays:
            request.request_time.CopyFrom(timestamp_of_ms(self._request_time_ms))
        elif any(key for key, _ in self._items.values()) or self._is_long_past():
            request.request_time.CopyFrom(timestamp_of_ms(self._clock()))
        self._write_tasks(request)

    def _write_tasks(self, request: pb.ScheduleBatchRequest) -> None:
        request.template.CopyFrom(self._template)
        if self._items or 0 < self._delays < len(self._dues):
            self._write_items(request.items)
        else:
            self._write_columns(request.columns)

    def _write_columns(self, columns: pb.TaskColumns) -> None:
        (columns.delay_ms if self._delays else columns.fire_at_ms).extend(self._dues)
        lengths = [len(payload) for payload in self._payloads]
        same = lengths.count(lengths[0]) == len(lengths)
        columns.payload_lengths.extend(lengths[:1] if same else lengths)
        columns.payloads = b"".join(self._payloads)
        for name, keys in self._keys.items():
            places = {key: place for place, key in enumerate(dict.fromkeys(filter(None, keys)), start=1)}
            if places:
                getattr(columns, name).extend(places)
                getattr(columns, f"{name.removesuffix('s')}_of").extend([places.get(key, 0) for key in keys])

    def _write_items(self, items: pb.TaskItems) -> None:
        for index, (payload, due) in enumerate(zip(self._payloads, self._due_list(), strict=True)):
            written = items.items.add(payload=payload)
            if due.is_delay:
                written.delay.CopyFrom(duration_of_ms(due.ms))
            else:
                written.fire_time.CopyFrom(timestamp_of_ms(due.ms))
            key, own = self._items.get(index, ("", None))
            written.key = key
            if own is not None:
                written.template.CopyFrom(own.to_proto())

    def _due_list(self) -> Iterator[Due]:
        for ms, is_delay in zip(self._dues, self._is_delay, strict=True):
            yield Due(ms, bool(is_delay))

    def read(self, response: pb.ScheduleBatchResponse) -> Answered:
        keys = {index: key for index, (key, _) in self._items.items() if key}
        return read_answer(self.template.queue, response, self.asked_ms(), keys)
