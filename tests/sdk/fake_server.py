"""A server for the SDK's tests: keeps tasks in a dict, delivers what it is told to, and fails on command.

It takes requests as raw bytes, because the tests are about what is on the wire: a repeat must be the same bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from timerd.services.transport.streams import Unfinished
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1 import work_service_pb2 as wk

BUCKET_MS = 300_000
SCOPE = 0xA1B2C3D4E5F60718
TOKEN_BYTES = 64
Context = grpc.aio.ServicerContext[Any, Any]
Handle = Callable[[bytes, Context], Awaitable[bytes]]


class FakeTimers:
    """The Session stream and a few unary calls."""

    def __init__(self) -> None:
        self.window = pb.SessionWindow(max_unanswered_bytes=16 << 20, max_unanswered_requests=256)
        # Every request of a session as it came, of all streams.
        self.received: list[bytes] = []
        self.sessions = 0
        # So many requests are taken in (stored!) and then the stream breaks before the answer.
        self.break_after_storing = 0
        self.breaks_with = grpc.StatusCode.UNAVAILABLE
        # Answers to the next requests instead of storing them.
        self.refusals: deque[Any] = deque()
        # Results for single items of the next message.
        self.item_results: dict[int, pb.ItemResult] = {}
        self.chaos: random.Random | None = None
        self.refuses_sessions: grpc.StatusCode | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Condition()
        self.by_request_id: dict[str, pb.SessionResponse] = {}
        self.payloads: list[bytes] = []
        self.unary: list[tuple[str, bytes]] = []
        self.unary_answers: dict[str, deque[Any]] = defaultdict(deque)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(condition), 20)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def requests(self) -> list[pb.SessionRequest]:
        return [pb.SessionRequest.FromString(data) for data in self.received]

    async def session(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[pb.SessionResponse]:
        self.sessions += 1
        if self.refuses_sessions is not None:
            await context.abort(self.refuses_sessions, "not for you")
        yield pb.SessionResponse(window=self.window)
        async for data in requests:
            self.received.append(data)
            await self._tell()
            await self.gate.wait()
            await self._maybe_break(context)
            response = self._answer(pb.SessionRequest.FromString(data))
            await self._tell()
            await self._maybe_break(context)
            if self.break_after_storing:
                self.break_after_storing -= 1
                await context.abort(self.breaks_with, "the cable was cut")
            yield response

    async def _maybe_break(self, context: Context) -> None:
        if self.chaos is not None and self.chaos.random() < 0.15:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the cable was cut")

    def _answer(self, request: pb.SessionRequest) -> pb.SessionResponse:
        if self.refusals:
            return pb.SessionResponse(sequence=request.sequence, problem=self.refusals.popleft())
        body = getattr(request, request.WhichOneof("request") or "")
        known = self.by_request_id.get(body.request_id)
        if known is None:
            known = self._store(request)
            self.by_request_id[body.request_id] = known
        answer = pb.SessionResponse()
        answer.CopyFrom(known)
        answer.sequence = request.sequence
        return answer

    def _store(self, request: pb.SessionRequest) -> pb.SessionResponse:
        if request.HasField("cancel"):
            outcomes = [1 if task_id.startswith("A") else 6 for task_id in request.cancel.task_ids]
            return pb.SessionResponse(cancel=pb.CancelBatchResponse(outcomes=outcomes))  # type: ignore[arg-type]
        if request.HasField("reschedule"):
            move = request.reschedule
            moved = pb.RescheduleResponse(task_id=move.task_id, fire_time=move.fire_time)
            return pb.SessionResponse(reschedule=moved)
        return pb.SessionResponse(schedule=self._schedule(request.schedule))

    def _schedule(self, batch: pb.ScheduleBatchRequest) -> pb.ScheduleBatchResponse:
        if batch.HasField("items"):
            return self._store_items(batch)
        payloads = split_payloads(batch.columns)
        self.payloads += payloads
        base_ms = batch.request_time.seconds * 1000 + batch.request_time.nanos // 1_000_000
        given = [base_ms + delay for delay in batch.columns.delay_ms]
        fire_at_ms = list(batch.columns.fire_at_ms) or given
        if self.item_results:
            return self._store_some(fire_at_ms)
        return pb.ScheduleBatchResponse(
            stored=len(fire_at_ms), placement=placement_of(batch.request_id, fire_at_ms), fire_at_ms=given
        )

    def _store_items(self, batch: pb.ScheduleBatchRequest) -> pb.ScheduleBatchResponse:
        self.payloads += [item.payload for item in batch.items.items]
        results = [
            pb.ItemResult(index=index, outcome=1, task_id=f"A-{item.key or index}", fire_time=item.fire_time)  # type: ignore[arg-type]
            for index, item in enumerate(batch.items.items)
        ]
        return pb.ScheduleBatchResponse(stored=len(results), results=results)

    def _store_some(self, fire_at_ms: list[int]) -> pb.ScheduleBatchResponse:
        special, self.item_results = self.item_results, {}
        good = pb.ItemResult(outcome=1)  # type: ignore[arg-type]
        results = []
        for index in range(len(fire_at_ms)):
            result = pb.ItemResult()
            result.CopyFrom(special.get(index, good))
            result.index = index
            result.task_id = f"A-{index}" if index not in special else ""
            results.append(result)
        return pb.ScheduleBatchResponse(stored=len(results) - len(special), results=results)

    async def answer_unary(self, method: str, data: bytes, context: Context) -> bytes:
        self.unary.append((method, data))
        answer = self.unary_answers[method].popleft()
        if isinstance(answer, tuple):
            code, details, metadata = answer
            context.set_trailing_metadata(metadata)
            await context.abort(code, details)
        return answer.SerializeToString()  # type: ignore[no-any-return]


class FakeWork:
    """The Work stream: delivers within credit, notes what comes back."""

    def __init__(self) -> None:
        self.opens: list[wk.Open] = []
        self.settles: list[wk.Settle] = []
        self.released: list[bytes] = []
        self.extends: list[wk.Extend] = []
        self.credits: list[wk.Credit] = []
        self.credit: Counter[str] = Counter()
        self.waiting: dict[str, deque[wk.Deliver]] = defaultdict(deque)
        self.confirms = True
        self.knows_pools = True
        # Queue -> the pool it is in.
        self.pools: dict[str, str] = {}
        self.lost = b""
        self.lost_on_extend = b""
        self.half_closed = 0
        self.settle_problem: Any = None
        self.refuses: grpc.StatusCode | None = None
        self._streams: list[asyncio.Queue[Any]] = []
        self._changed = asyncio.Condition()

    def put(self, deliver: wk.Deliver) -> None:
        self.waiting[deliver.queue].append(deliver)
        self._deliver()

    def say(self, response: wk.WorkResponse) -> None:
        for stream in self._streams:
            stream.put_nowait(response)

    def break_streams(self, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        self.credit.clear()
        for stream in self._streams:
            stream.put_nowait(code)
        # What comes in on them from here on counts for nothing.
        self._streams.clear()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(condition), 20)

    def tokens(self, action: int | None = None) -> list[bytes]:
        chosen = [settle for settle in self.settles if action is None or settle.action == action]
        return [token for settle in chosen for token in split(settle.ack_tokens)]

    async def work(self, requests: AsyncIterator[wk.WorkRequest], context: Context) -> AsyncIterator[wk.WorkResponse]:
        if self.refuses is not None:
            await context.abort(self.refuses, "not for you")
        out: asyncio.Queue[Any] = asyncio.Queue()
        self._streams.append(out)
        reader = asyncio.create_task(self._read(requests, out))
        try:
            while (response := await out.get()) is not None:
                if isinstance(response, grpc.StatusCode):
                    await context.abort(response, "the cable was cut")
                yield response
        finally:
            reader.cancel()
            if out in self._streams:
                self._streams.remove(out)

    async def _read(self, requests: AsyncIterator[wk.WorkRequest], out: asyncio.Queue[Any]) -> None:
        async for request in requests:
            if out not in self._streams:
                return
            getattr(self, f"_on_{request.WhichOneof('request')}")(request, out)
            async with self._changed:
                self._changed.notify_all()
        self.half_closed += 1
        out.put_nowait(None)

    def _on_open(self, request: wk.WorkRequest, out: asyncio.Queue[Any]) -> None:
        self.opens.append(request.open)
        self.credit.clear()
        opened = wk.Opened(server="fake", lease_ms=request.open.lease_ms, ack_token_bytes=TOKEN_BYTES, lost=self.lost)
        opened.knows_pools = self.knows_pools
        self.pools = {queue: pool.name for pool in request.open.pools for queue in pool.queues}
        out.put_nowait(wk.WorkResponse(opened=opened))
        for credit in request.open.credits:
            self.credit[credit.queue] += credit.tasks
        self._deliver()

    def _on_credit(self, request: wk.WorkRequest, out: asyncio.Queue[Any]) -> None:
        self._add_credit(request.credit)

    def _add_credit(self, credit: wk.Credit) -> None:
        self.credits.append(credit)
        self.credit[credit.queue or credit.pool] += credit.tasks
        self._deliver()

    def _on_settle(self, request: wk.WorkRequest, out: asyncio.Queue[Any]) -> None:
        if request.settle.action == wk.SETTLE_ACTION_RELEASE:
            self.credit.clear()
            self.released += split(request.settle.ack_tokens)
        else:
            self.settles.append(request.settle)
        for credit in request.settle.credits:
            self._add_credit(credit)
        if not self.confirms:
            return
        confirmed = wk.SettleConfirmed(sequence=request.settle.sequence)
        if self.settle_problem is not None:
            confirmed.problem.CopyFrom(self.settle_problem)
            self.settle_problem = None
        out.put_nowait(wk.WorkResponse(confirmed=confirmed))

    def _on_extend(self, request: wk.WorkRequest, out: asyncio.Queue[Any]) -> None:
        self.extends.append(request.extend)
        if self.lost_on_extend:
            out.put_nowait(wk.WorkResponse(extended=wk.Extended(lost=self.lost_on_extend)))

    def _deliver(self) -> None:
        """A message goes out when there is credit for all of it."""
        for queue, waiting in self.waiting.items():
            named = self.pools.get(queue, queue)
            while waiting and self._streams and self.credit[named] >= len(waiting[0].fire_at_ms):
                self.credit[named] -= len(waiting[0].fire_at_ms)
                self._streams[-1].put_nowait(wk.WorkResponse(deliver=waiting.popleft()))


class FakeServer:
    """Both services on a loopback port."""

    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.work = FakeWork()
        self.target = ""
        self._server: grpc.aio.Server

    async def start(self, port: int = 0) -> None:
        self._unfinished = Unfinished()
        self._server = grpc.aio.server(interceptors=[self._unfinished])
        self._server.add_generic_rpc_handlers((self._timer_handlers(), self._work_handlers()))
        port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.target = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)
        await self._unfinished.wound_up(5)

    def _timer_handlers(self) -> grpc.GenericRpcHandler:
        handlers: dict[str, Any] = {
            "Session": grpc.stream_stream_rpc_method_handler(
                self.timers.session, None, pb.SessionResponse.SerializeToString
            )
        }
        names = (
            "Get",
            "Wait",
            "Call",
            "List",
            "Count",
            "Purge",
            "Cancel",
            "FireNow",
            "ListDeadLetters",
            "Redrive",
            "PurgeDeadLetters",
            "GetServerInfo",
        )
        for name in (*names, "GetCluster", "GetPartition", "DrainInstance", "AnnounceLoad"):
            handlers[name] = grpc.unary_unary_rpc_method_handler(self._unary(name), None, None)
        return grpc.method_handlers_generic_handler("timerd.v1.TimerService", handlers)

    def _unary(self, name: str) -> Handle:
        async def handle(data: bytes, context: Context) -> bytes:
            return await self.timers.answer_unary(name, data, context)

        return handle

    def _work_handlers(self) -> grpc.GenericRpcHandler:
        handler = grpc.stream_stream_rpc_method_handler(
            self.work.work, wk.WorkRequest.FromString, wk.WorkResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler("timerd.v1.WorkService", {"Work": handler})


def split_payloads(columns: pb.TaskColumns) -> list[bytes]:
    count = len(columns.fire_at_ms) or len(columns.delay_ms)
    lengths = list(columns.payload_lengths)
    lengths = lengths * count if len(lengths) == 1 else lengths
    payloads, at = [], 0
    for length in lengths:
        payloads.append(columns.payloads[at : at + length])
        at += length
    return payloads


def placement_of(request_id: str, fire_at_ms: list[int]) -> pb.Placement:
    starts = sorted({ms - ms % BUCKET_MS for ms in fire_at_ms})
    return pb.Placement(
        prefix=hashlib.blake2b(request_id.encode(), digest_size=12).digest(),
        scope=SCOPE,
        bucket_length_ms=BUCKET_MS,
        bucket_start_ms=starts,
        shards=[index % 3 for index in range(len(starts))],
        macs=b"".join(mac_of(start) for start in starts),
    )


def mac_of(bucket_start_ms: int) -> bytes:
    return hashlib.blake2b(str(bucket_start_ms).encode(), digest_size=8).digest()


def token_of(number: int) -> bytes:
    return number.to_bytes(TOKEN_BYTES, "big")


def split(tokens: bytes) -> list[bytes]:
    return [tokens[at : at + TOKEN_BYTES] for at in range(0, len(tokens), TOKEN_BYTES)]


def deliver_of(queue: str, payloads: list[bytes], first: int = 0, fire_at_ms: int = 1_700_000_000_000) -> wk.Deliver:
    """Tasks `first`, `first` + 1, ... of a queue."""
    numbers = range(first, first + len(payloads))
    return wk.Deliver(
        queue=queue,
        templates=[
            wk.DeliveryTemplate(labels={"a": "b"}, content_type="text/plain", fencing_scope="s", fencing_token=7)
        ],
        task_ids=b"".join(number.to_bytes(44, "big") for number in numbers),
        delivery_ids=b"".join(number.to_bytes(20, "big") for number in numbers),
        ack_tokens=b"".join(map(token_of, numbers)),
        fire_at_ms=[fire_at_ms] * len(payloads),
        payload_lengths=[len(payload) for payload in payloads],
        payloads=b"".join(payloads),
    )
