"""OverviewService: what all instances do, added up, and how much is coming.

Pages ask every two seconds, several at a time. So an answer is kept for a second, and what the store knows for longer:
ten pages cost what one does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.core.dispatch import LATENESS_BOUNDS_MS
from timerd.core.taken import QueueKey
from timerd.model.errors import Invalid, StoreUnavailable, StoreUnknown
from timerd.model.partition import scope_of
from timerd.ports import Store
from timerd.services.calls.fields import namespace_of, queue_of
from timerd.services.calls.replies import timestamp
from timerd.services.engine.engine import Engine
from timerd.services.holding.membership import Membership
from timerd.services.operating.activity import Activity
from timerd.services.operating.colleagues import Colleagues
from timerd.v1 import overview_service_pb2 as pb
from timerd.v1.timer_service_pb2 import Ledger

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
MOST_RANGE_MS = 24 * HOUR_MS
KEPT_MS = 1_000
PENDING_KEPT_MS = 30_000
# Of estimates, for one answer: those of many queues are read in turn. A queue costs as much as so many rows besides.
MOST_ROWS_READ, A_QUEUE_IN_ROWS = 2_500, 50
# Of queues without a worker, for one answer: each is a read of the store.
MOST_BACKLOGS_READ = 10
LOAD_KEPT_MS = 5_000
# The control rows of all that is kept are read for it.
LEDGER_KEPT_MS = 60_000
# Ranges of load that are kept; pages of many queues ask for one each.
MOST_LOADS = 200
QueueName = tuple[str, str]


class Loads(NamedTuple):
    """Tasks of each minute; `read_ms` is when they were read."""

    read_ms: int
    tasks: Sequence[int]


class Overview:
    """One method a verb: request -> reply, or one of model.errors. `colleagues` is None where there are none."""

    def __init__(
        self,
        activity: Activity,
        engine: Engine,
        store: Store,
        membership: Membership,
        colleagues: Colleagues | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._activity = activity
        self._engine = engine
        self._store = store
        self._membership = membership
        self._colleagues = colleagues
        self._now_ms = now_ms
        self._asking = asyncio.Lock()
        self._overview: tuple[int, pb.GetOverviewResponse] | None = None
        # What is still to come of a queue, and when that was read.
        self._pending: dict[QueueName, tuple[int, int]] = {}
        # Whether something of it lies in the store, and when that was read.
        self._backlogs: dict[QueueName, tuple[bool, int]] = {}
        self._loads: dict[tuple[str, str, int, int], Loads] = {}
        self._ledger: tuple[int, Ledger] | None = None

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {"GetOverview": self.get_overview, "GetLoad": self.get_load}

    # -- what they do ---------------------------------------------------------------------------------------------

    async def get_overview(self, _request: pb.GetOverviewRequest) -> pb.GetOverviewResponse:
        """Who asks while another one is answered gets the same answer."""
        async with self._asking:
            now_ms = self._now_ms()
            if self._overview is None or not 0 <= now_ms - self._overview[0] < KEPT_MS:
                self._overview = now_ms, await self._made(now_ms)
            return self._overview[1]

    async def _made(self, now_ms: int) -> pb.GetOverviewResponse:
        names = sorted({self._membership.name, *self._membership.present()})
        found = dict(zip(names, await asyncio.gather(*map(self._instance, names)), strict=True))
        reports = [report for report in found.values() if report is not None]
        queues = merged(queue for report in reports for queue in report.queues)
        await self._add_pending(queues, now_ms)
        await self._add_backlogs(queues, now_ms)
        for report in reports:
            del report.queues[:]
        return pb.GetOverviewResponse(
            engine_time=timestamp(now_ms),
            instances=reports,
            silent=[name for name, report in found.items() if report is None],
            queues=queues,
            lateness_bounds_ms=LATENESS_BOUNDS_MS,
            answered_by=self._membership.name,
            ledger=await self._kept_ledger(now_ms),
        )

    async def _kept_ledger(self, now_ms: int) -> Ledger | None:
        """Where the store does not answer, that of before."""
        if self._ledger is None or not 0 <= now_ms - self._ledger[0] < LEDGER_KEPT_MS:
            with suppress(StoreUnavailable, StoreUnknown):
                self._ledger = now_ms, Ledger(**(await self._engine.facts()).ledger)
        return self._ledger[1] if self._ledger is not None else None

    async def _instance(self, name: str) -> pb.InstanceActivity | None:
        """None: it does not answer."""
        address = self._membership.address_of(name)
        report = await self._report_of(name, address)
        if report is None:
            return None
        shown = pb.InstanceActivity(name=name, address=address)
        shown.MergeFrom(report)
        return shown

    async def _report_of(self, name: str, address: str) -> pb.InstanceActivity | None:
        if name == self._membership.name:
            return self._activity.report()
        return await self._colleagues.activity(address) if self._colleagues is not None else None

    async def _add_pending(self, queues: Sequence[pb.QueueActivity], now_ms: int) -> None:
        """Where the store does not answer, what it said last; of what was not read yet, what the counters say."""
        with suppress(StoreUnavailable, StoreUnknown):
            await self._read_pending(sorted(map(_name, queues), key=self._read_ms), now_ms)
        for queue in queues:
            known = self._pending.get(_name(queue))
            queue.pending = known[0] if known is not None else _counted_pending(queue)

    async def _read_pending(self, names: Sequence[QueueName], now_ms: int) -> None:
        """Those that were read longest ago, as far as an answer may cost."""
        rows = 0
        for name in names:
            if rows >= MOST_ROWS_READ or 0 <= now_ms - self._read_ms(name) < PENDING_KEPT_MS:
                return
            if name[0]:
                tasks, minutes = await self._engine.estimated(*name, now_ms)
                self._pending[name] = tasks, now_ms
                rows += minutes + A_QUEUE_IN_ROWS

    def _read_ms(self, name: QueueName) -> int:
        known = self._pending.get(name)
        return known[1] if known is not None else -PENDING_KEPT_MS

    async def _add_backlogs(self, queues: Sequence[pb.QueueActivity], now_ms: int) -> None:
        """What a worker takes is in memory, so only those without one are looked for. As _add_pending."""
        idle = [queue for queue in queues if queue.namespace and not self._is_served(queue)]
        asked = sorted(map(_name, idle), key=self._looked_ms)[:MOST_BACKLOGS_READ]
        with suppress(StoreUnavailable, StoreUnknown):
            for name in asked:
                if not 0 <= now_ms - self._looked_ms(name) < PENDING_KEPT_MS:
                    buckets = await self._store.catalogue(scope_of(*name), -(1 << 62), now_ms)
                    self._backlogs[name] = any(not each.finished for each in buckets), now_ms
        for queue in idle:
            queue.has_backlog = self._backlogs.get(_name(queue), (False, 0))[0]
            queue.lacks_worker = queue.has_backlog or queue.due > 0

    def _is_served(self, queue: pb.QueueActivity) -> bool:
        return queue.workers > 0 or self._activity.is_served(QueueKey(*_name(queue)))

    def _looked_ms(self, name: QueueName) -> int:
        known = self._backlogs.get(name)
        return known[1] if known is not None else -PENDING_KEPT_MS

    # -- what is coming -------------------------------------------------------------------------------------------

    async def get_load(self, request: pb.GetLoadRequest) -> pb.GetLoadResponse:
        namespace = namespace_of(request.namespace)
        queue = queue_of(request.queue, "queue") if request.queue else ""
        from_ms = _instant_ms(request.start_time) if request.HasField("start_time") else self._now_ms()
        start_ms = from_ms // MINUTE_MS * MINUTE_MS
        end_ms = _instant_ms(request.end_time) if request.HasField("end_time") else start_ms + HOUR_MS
        if not start_ms < end_ms <= start_ms + MOST_RANGE_MS:
            raise Invalid(
                "The range of GetLoad ends after its start, and a day after it at most: choose another end_time.",
                "end_time",
            )
        tasks = await self._load(namespace, queue, start_ms, end_ms)
        return pb.GetLoadResponse(start_time=timestamp(start_ms), tasks=tasks)

    async def _load(self, namespace: str, queue: str, start_ms: int, end_ms: int) -> Sequence[int]:
        asked, now_ms = (namespace, queue, start_ms, end_ms), self._now_ms()
        kept = self._loads.get(asked)
        if kept is None or not 0 <= now_ms - kept.read_ms < LOAD_KEPT_MS:
            if len(self._loads) >= MOST_LOADS:
                self._loads.clear()
            counts = await self._engine.load(namespace, queue, start_ms, end_ms)
            minutes = range(start_ms, end_ms, MINUTE_MS)
            kept = self._loads[asked] = Loads(now_ms, [max(0, counts.get(minute, 0)) for minute in minutes])
        return kept.tasks


def merged(queues: Iterable[pb.QueueActivity]) -> list[pb.QueueActivity]:
    """Those of one name added up; sorted by name."""
    sums: dict[QueueName, pb.QueueActivity] = {}
    for queue in queues:
        found = sums.get(_name(queue))
        if found is None:
            sums[_name(queue)] = found = pb.QueueActivity()
            found.CopyFrom(queue)
        else:
            _add(found, queue)
    return [sums[name] for name in sorted(sums)]


def _add(to: pb.QueueActivity, more: pb.QueueActivity) -> None:
    for field in ("scheduled", "due", "sent", "in_hand", "dead", "workers"):
        setattr(to, field, getattr(to, field) + getattr(more, field))
    for outcome, number in more.settled.items():
        to.settled[outcome] += number
    missing = len(more.lateness_counts) - len(to.lateness_counts)
    to.lateness_counts.extend([0] * missing)
    for place, number in enumerate(more.lateness_counts):
        to.lateness_counts[place] += number


def _counted_pending(queue: pb.QueueActivity) -> int:
    """Of what was stored since the start, what has not ended nor come due."""
    gone: int = queue.due + queue.in_hand + queue.settled["acked"] + queue.dead
    return max(0, queue.scheduled - gone)


def _name(queue: pb.QueueActivity) -> QueueName:
    return queue.namespace, queue.queue


def _instant_ms(time: Timestamp) -> int:
    return time.seconds * 1000 + time.nanos // 1_000_000
