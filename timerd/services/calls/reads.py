"""What looks at tasks: get, list, count, dead letters, the server's own facts."""

from __future__ import annotations

from collections.abc import Callable, Container
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol

from timerd.config import MIB, ServerConfig, own_version
from timerd.core.taken import QueueKey
from timerd.model.errors import Unavailable
from timerd.model.identity import TASK_ID_BYTES
from timerd.ports import DeadLetter
from timerd.services.calls.due_times import wait_ms
from timerd.services.calls.fields import at_most, namespace_of
from timerd.services.calls.fields import queue_of as checked_queue
from timerd.services.calls.page_tokens import after_of, cursor_of, cursor_token, page_token
from timerd.services.calls.queries import (
    DEFAULT_PAGE,
    DEFAULT_SCANNED,
    MAX_PAGE,
    MAX_SCANNED,
    estimate_queue,
    has_range,
    open_bounds,
    query_of,
)
from timerd.services.calls.queue_rules import QueueRules
from timerd.services.calls.replies import dead_letter_of, duration, history_of, optional_timestamp, task_of, timestamp
from timerd.services.calls.results import KeptResults
from timerd.services.calls.target_board import TargetBoard
from timerd.services.calls.targets import task_of as resolve
from timerd.services.calls.task_ends import OVER, TaskEnds
from timerd.services.calls.waiting import waiting_of
from timerd.services.engine.verbs import EngineFacts, TaskView, Verbs
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1.task_pb2 import Task

# Clients take 4 MiB a message by default.
PAGE_BYTES = 2 * MIB
DEAD_AFTER_BYTES = 8 + TASK_ID_BYTES


class DeliveryFacts(NamedTuple):
    """What delivery adds to the engine's facts."""

    in_flight: int = 0
    workers: int = 0
    # Queues whose tasks somebody takes. None: nobody knows.
    served: Container[QueueKey] | None = None


class OtherKeepers(Protocol):
    """The other instances, which may keep ordering keys."""

    async def with_before(self, view: TaskView) -> TaskView:
        """With the task that comes before it, where one of them keeps its key."""
        ...


class Reads:
    """One method a verb: request -> reply, or one of model.errors. `elsewhere`: where there are other instances."""

    def __init__(
        self,
        verbs: Verbs,
        config: ServerConfig,
        delivery: Callable[[], DeliveryFacts],
        rules: QueueRules,
        ends: TaskEnds,
        results: KeptResults,
        targets: TargetBoard,
        elsewhere: OtherKeepers | None = None,
    ) -> None:
        self._targets = targets
        self._elsewhere = elsewhere
        self._verbs = verbs
        self._rules = rules
        self._most_payloads = max(1, PAGE_BYTES // config.payload_limit_bytes)
        self._delivery = delivery
        self._ends = ends
        self._results = results

    async def get(self, request: wire.GetRequest) -> wire.GetResponse:
        namespace = namespace_of(request.namespace)
        task = await resolve(self._verbs, namespace, request, request.WhichOneof("target"))
        return wire.GetResponse(task=await self._shown(namespace, await self._verbs.get(namespace, task)))

    async def wait(self, request: wire.WaitRequest) -> wire.WaitResponse:
        """A key is looked up once: the task that has it then is waited for."""
        namespace = namespace_of(request.namespace)
        timeout_ms = wait_ms(request.timeout)
        task = await resolve(self._verbs, namespace, request, request.WhichOneof("target"))
        view = await self._ends.wait(task, partial(self._verbs.get, namespace, task), timeout_ms / 1000)
        return wire.WaitResponse(task=await self._shown(namespace, view), has_ended=view.state in OVER)

    async def _shown(self, namespace: str, view: TaskView) -> Task:
        """As Get shows it."""
        if self._elsewhere is not None:
            view = await self._elsewhere.with_before(view)
        shown = task_of(namespace, view)
        if (result := await self._results.of(view)) is not None:
            shown.result.CopyFrom(result)
        shown.history.extend(history_of(view.history))
        # While the clock is not trusted nobody knows what is due.
        with suppress(Unavailable):
            served, now_ms = self._delivery().served, self._verbs.now_ms()
            if (waiting := waiting_of(view, self._rules, now_ms, self._targets.trouble, served)) is not None:
                shown.waiting_for.CopyFrom(waiting)
        return shown

    async def list(self, request: wire.ListRequest) -> wire.ListResponse:
        """With payloads a page holds fewer tasks, so that it stays well below what clients take."""
        namespace = namespace_of(request.namespace)
        query = query_of(namespace, request.filter)
        limit = at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE)
        if request.include_payload:
            limit = min(limit, self._most_payloads)
        scanned = at_most(request.max_scanned, DEFAULT_SCANNED, MAX_SCANNED)
        page = await self._verbs.list(query, cursor_of(request), limit, scanned, payload=request.include_payload)
        return wire.ListResponse(
            tasks=[task_of(namespace, view) for view in page.views],
            next_page_token=cursor_token(request, page.cursor),
            scanned_through=timestamp(page.scanned_through_ms),
        )

    async def count(self, request: wire.CountRequest) -> wire.CountResponse:
        namespace = namespace_of(request.namespace)
        if not has_range(request.filter):
            count = await self._verbs.estimate(namespace, estimate_queue(request.filter))
            return wire.CountResponse(count=count, estimated=True)
        query = query_of(namespace, request.filter)
        scanned = at_most(request.max_scanned, DEFAULT_SCANNED, MAX_SCANNED)
        count, cursor, through_ms = await self._verbs.count(query, cursor_of(request), scanned)
        return wire.CountResponse(
            count=count, next_page_token=cursor_token(request, cursor), scanned_through=timestamp(through_ms)
        )

    async def list_dead_letters(self, request: wire.ListDeadLettersRequest) -> wire.ListDeadLettersResponse:
        namespace = namespace_of(request.namespace)
        queue = checked_queue(request.queue, "queue") if request.queue else ""
        lo_ms, hi_ms = open_bounds(request)
        after = after_of(request, DEAD_AFTER_BYTES) or b""
        limit = min(at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE), self._most_payloads)
        dead_letters = await self._verbs.dead_letters(namespace, queue, lo_ms, hi_ms, after, limit)
        more = page_token(request, dead_after(dead_letters[-1])) if len(dead_letters) >= limit else ""
        return wire.ListDeadLettersResponse(dead_letters=map(dead_letter_of, dead_letters), next_page_token=more)

    async def get_server_info(self, _request: wire.GetServerInfoRequest) -> wire.GetServerInfoResponse:
        info = server_info(await self._verbs.facts(), self._delivery())
        info.advice.extend(self._targets.advice())
        return info


def dead_after(letter: DeadLetter) -> bytes:
    """Where the next page of dead letters begins (Rows.dead)."""
    return letter.died_at_ms.to_bytes(8, "big") + letter.task_id


def server_info(facts: EngineFacts, delivery: DeliveryFacts) -> wire.GetServerInfoResponse:
    return wire.GetServerInfoResponse(
        version=own_version(),
        durability=facts.durability,
        store=facts.store,
        engine_time=timestamp(int(facts.engine_ms)),
        clock_offset_ms=round(facts.clock_offset_ms),
        clock_trusted=facts.clock_trusted,
        disk_free_bytes=facts.disk_free_bytes,
        disk_used_bytes=facts.disk_used_bytes,
        ledger=wire.Ledger(**facts.ledger),
        partitions_open=facts.partitions_open,
        memory_used_bytes=facts.memory_used_bytes,
        memory_budget_bytes=facts.memory_budget_bytes,
        in_flight=delivery.in_flight,
        loaded=facts.loaded,
        workers=delivery.workers,
        oldest_due_time=optional_timestamp(facts.oldest_due_ms),
        start_time=timestamp(facts.started_ms),
        lateness_bounds_ms=facts.lateness_bounds_ms,
        lateness_counts=facts.lateness_counts,
        uptime=duration(max(0, int(facts.engine_ms) - facts.started_ms)),
        advice=facts.advice,
        notes=facts.notes,
    )
