"""How much each namespace has pending and stored, for its quotas: counted as it comes and ends, written every 10 s.

It is counted by the day on which tasks are due, and only days count of which the catalogue still has buckets: that are
open, for tasks; that are kept, for payloads. So nothing is looked through, and what was not counted (a crash loses the
last seconds, what expires unsent is not heard of) is made good when its day is over. Instances of a cluster add up what
all of them have written.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from timerd.core.dispatch import Settlement
from timerd.model.errors import StoreUnavailable
from timerd.model.identity import TaskId
from timerd.model.quotas import InUse
from timerd.model.rows import RowGroup
from timerd.model.task_ids import TaskIds
from timerd.ports import Store

DAY_MS, MINUTE_MS = 86_400_000, 60_000
TASKS, BYTES = "tasks", "bytes"
# Estimates go a day after their minute. These stand at a minute long after their day, those of a month close together,
# since a shared store reads them by day.
_KEPT_DAYS, _DAYS_TOGETHER = 432, 32
_FOR_EVER_MS = 1 << 62
# Of which the sums are kept in mind. Others are read when they are asked for.
MANY_NAMESPACES = 1_000


class NamespaceUse:
    """`of` is what a quota goes by; `now_ms` is engine time."""

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        # By namespace, and in it by (what, day): what is not written yet.
        self._fresh: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        self._sums: dict[str, Counter[str]] = {}
        # Of the past, by what is counted.
        self._days: Mapping[str, frozenset[int]] = {TASKS: frozenset(), BYTES: frozenset()}
        self._today = 0
        self._lock = asyncio.Lock()

    async def of(self, namespace: str) -> InUse:
        """Reads the store when it is asked for the first time. Raises StoreUnavailable, StoreUnknown."""
        if namespace not in self._sums:
            async with self._lock:
                await self._read_days()
                await self._read(namespace)
        return self.known()[namespace]

    def known(self) -> dict[str, InUse]:
        """Of namespaces that were asked for."""
        return {name: InUse(max(0, sums[TASKS]), max(0, sums[BYTES])) for name, sums in self._sums.items()}

    def add(self, rows: RowGroup) -> None:
        """They were stored."""
        days, sizes = rows.columns["position_ms"] // DAY_MS, rows.columns["length"]
        for number, template in enumerate(rows.templates):
            if len(rows.templates) == 1:
                self._add(template.namespace, days, sizes)
            else:
                mine = rows.columns["template"] == number
                self._add(template.namespace, days[mine], sizes[mine])

    def _add(self, namespace: str, days: npt.NDArray[np.int64], sizes: npt.NDArray[np.integer]) -> None:
        if len(days) == 1:
            self._put(namespace, TASKS, int(days[0]), 1)
            self._put(namespace, BYTES, int(days[0]), int(sizes[0]))
        elif len(days):
            first = int(days.min())
            counts, total = np.bincount(days - first), np.bincount(days - first, sizes)
            for at in np.flatnonzero(counts).tolist():
                self._put(namespace, TASKS, first + at, int(counts[at]))
                self._put(namespace, BYTES, first + at, int(total[at]))

    def remove(self, namespace: str, tasks: Sequence[TaskId]) -> None:
        """They were cancelled or purged; their payloads stay until their day is over."""
        positions_ms = tasks.positions_ms.tolist() if isinstance(tasks, TaskIds) else [t.position_ms for t in tasks]
        self._end(namespace, positions_ms)

    def move(self, namespace: str, from_ms: int, to_ms: int) -> None:
        if from_ms // DAY_MS != to_ms // DAY_MS:
            self._put(namespace, TASKS, from_ms // DAY_MS, -1)
            self._put(namespace, TASKS, to_ms // DAY_MS, 1)

    def revive(self, namespace: str, tasks: int) -> None:
        """So many dead letters live again."""
        self._put(namespace, TASKS, self._now_ms() // DAY_MS, tasks)

    def settled(self, namespace: str, settlement: Settlement) -> None:
        """Deliveries of a namespace ended, or failed and go on; empty: of any, of which only dead letters are heard."""
        for end, letter in zip(settlement.dead, settlement.dead_letters, strict=True):
            self._end(letter.template.namespace, [end.partition.bucket_ms])
        if not namespace:
            return
        for part in settlement.acked:
            self._put(namespace, TASKS, part.partition.bucket_ms // DAY_MS, -len(part))
        self._end(namespace, [each.partition.bucket_ms for each in settlement.ended])
        self._end(namespace, [each.partition.bucket_ms for each in settlement.expired])
        for again in settlement.again:
            self.move(namespace, again.partition.bucket_ms, again.position_ms)

    def _end(self, namespace: str, positions_ms: Iterable[int]) -> None:
        for day, ended in Counter([at_ms // DAY_MS for at_ms in positions_ms]).items():
            self._put(namespace, TASKS, day, -ended)

    def _put(self, namespace: str, what: str, day: int, amount: int) -> None:
        # What an instance made for itself counts for nobody.
        if not amount or namespace.startswith("("):
            return
        self._fresh[namespace][what, day] += amount
        sums = self._sums.get(namespace)
        if sums is not None and self._counts(what, day):
            sums[what] += amount

    def _counts(self, what: str, day: int) -> bool:
        return day >= self._today or day in self._days[what]

    async def flush(self) -> None:
        """Writes what is fresh, and reads what all instances have written."""
        async with self._lock:
            taken, self._fresh = self._fresh, defaultdict(Counter)
            counts = {
                (_place(name), what, _minute_ms(day)): amount
                for name, fresh in taken.items()
                for (what, day), amount in fresh.items()
                if amount
            }
            try:
                if counts:
                    await self._store.save_estimates(counts)
            except StoreUnavailable:
                for name, fresh in taken.items():
                    self._fresh[name].update(fresh)
                raise
            await self._read_again()

    async def _read_again(self) -> None:
        if len(self._sums) > MANY_NAMESPACES:
            self._sums.clear()
        if self._sums:
            await self._read_days()
        for name in list(self._sums):
            await self._read(name)

    async def _read_days(self) -> None:
        now_ms = self._now_ms()
        buckets = await self._store.catalogue(None, -_FOR_EVER_MS, now_ms)
        self._today = now_ms // DAY_MS
        self._days = {
            TASKS: frozenset(each.bucket_ms // DAY_MS for each in buckets if not each.finished),
            BYTES: frozenset(each.bucket_ms // DAY_MS for each in buckets),
        }

    async def _read(self, namespace: str) -> None:
        sums: Counter[str] = Counter()
        lo_ms = self._now_ms() - DAY_MS
        for what in (TASKS, BYTES):
            stored = await self._store.estimates(_place(namespace), what, lo_ms, _FOR_EVER_MS)
            sums[what] = sum(n for minute_ms, n in stored.items() if self._counts(what, _day(minute_ms)))
        for (what, day), amount in self._fresh[namespace].items():
            sums[what] += amount if self._counts(what, day) else 0
        self._sums[namespace] = sums


def _place(namespace: str) -> str:
    """No caller can name it: namespaces have no brackets."""
    return f"(use){namespace}"


def _minute_ms(day: int) -> int:
    return (day - day % _DAYS_TOGETHER + _KEPT_DAYS) * DAY_MS + day % _DAYS_TOGETHER * MINUTE_MS


def _day(minute_ms: int) -> int:
    return minute_ms // DAY_MS - _KEPT_DAYS + minute_ms % DAY_MS // MINUTE_MS
