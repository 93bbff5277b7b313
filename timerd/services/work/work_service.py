"""The Work stream on the wire: checks each request and says in a sentence what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from timerd.core.dispatch import Action
from timerd.model.errors import Invalid, NotStored, StoreUnavailable, TimerdError, Unavailable
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.model.pushback import Pushback
from timerd.services.background import begin, writing
from timerd.services.calls.fields import namespace_of, plain_text, queue_of
from timerd.services.calls.progress import report_of
from timerd.services.calls.results import KeptResults, check_result
from timerd.services.calls.throttles import throttle_of
from timerd.services.dispatch.ports import Confirmation
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.transport.open_streams import is_refused
from timerd.services.transport.permission import keep_queue
from timerd.services.transport.status import Context, abort, problem_of
from timerd.services.work.connected import ConnectedWorkers
from timerd.services.work.poll_service import PollService
from timerd.services.work.pools_wire import OwnPools
from timerd.services.work.work_stream import WorkStream, encoded
from timerd.services.work.worker_frontend import WorkerFrontend
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.work_service_pb2_grpc import WorkServiceServicer

_SERVICE = pb.DESCRIPTOR.services_by_name["WorkService"].full_name
DEFAULT_LEASE_MS = 30_000
LEASES_MS = (1_000, 3_600_000)
MAX_QUEUES = 1_000
MAX_WORKER_CHARS = 128
MAX_ERROR_CHARS = 16 * 1024
MAX_NAME_BYTES = 64
MAX_REPLACED = 16
CREDITS = "open.credits"
# Of a worker whose result could not be written down.
AGAIN_AFTER_MS = 250
# Of a lease whose task has a result on its way to the store: less than the shortest one.
EXTENDED_S = 0.3
# How long a refusal waits for a worker that does not read.
LAST_WRITE_S = 1.0


def work_handler(servicer: WorkServiceServicer) -> grpc.GenericRpcHandler:
    """For `add_generic_rpc_handlers`. As the generated code does it, but what is no message is answered by the service:
    gRPC would break off with INTERNAL, or never end the call."""
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Work": grpc.stream_stream_rpc_method_handler(servicer.Work, decoder(pb.WorkRequest), encoded),
        "Receive": _unary(servicer.Receive, pb.ReceiveRequest),
        "Finish": _unary(servicer.Finish, pb.FinishRequest),
        "Extend": _unary(servicer.Extend, pb.ExtendRequest),
    }
    return grpc.method_handlers_generic_handler(_SERVICE, methods)


def _unary(behaviour: Callable[..., Any], request: type[Message]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(behaviour, decoder(request), lambda reply: reply.SerializeToString())


class WorkService(WorkServiceServicer):
    """Its requests are `Received` messages (see `work_handler`)."""

    def __init__(
        self,
        frontend: WorkerFrontend,
        results: KeptResults,
        hanging_up: HangingUp | None = None,
        connected: ConnectedWorkers | None = None,
    ) -> None:
        self._frontend = frontend
        self._results = results
        self._connected = connected or ConnectedWorkers(lambda: 0)
        self._polling = PollService(frontend, results)
        self._hanging_up = hanging_up or HangingUp()
        # By the number of the stream.
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._pools: dict[int, OwnPools] = {}
        self._replaced: set[int] = set()

    async def Work(self, request_iterator: AsyncIterator[Received[pb.WorkRequest]], context: Context) -> None:
        first = await context.read()
        if first is grpc.aio.EOF:
            return
        stream = WorkStream(context, self._frontend.flow)
        try:
            # Left before the refusal is written: that takes as long as a worker that does not read likes it to.
            with self._until_left(stream):
                self._open(stream, first.message)
                await self._serve(stream, context)
        except NotStored as error:
            await abort(context, problem_of(error))

    @property
    def in_hand(self) -> int:
        """Tasks that calls have received and not finished."""
        return self._polling.in_hand

    async def Receive(self, request: Received[pb.ReceiveRequest], context: Context) -> pb.ReceiveResponse:
        return await self._polling.receive(request.message, context)

    async def Finish(self, request: Received[pb.FinishRequest], context: Context) -> pb.FinishResponse:
        return await self._polling.finish(request.message, context)

    async def Extend(self, request: Received[pb.ExtendRequest], context: Context) -> pb.ExtendResponse:
        return self._polling.extend(request.message)

    @contextmanager
    def _until_left(self, stream: WorkStream) -> Iterator[None]:
        call = asyncio.current_task()
        assert call is not None
        self._calls[stream.number] = call
        try:
            yield
        except asyncio.CancelledError:
            if stream.number not in self._replaced or call.uncancel() > 0:
                raise
            raise Unavailable("The worker has opened another stream in the place of this one.", "REPLACED") from None
        finally:
            del self._calls[stream.number]
            self._pools.pop(stream.number, None)
            self._replaced.discard(stream.number)
            self._connected.leave(stream.number)
            if unsent := stream.unsent():
                self._frontend.take_back(stream, unsent)
            self._frontend.left(stream)

    async def _serve(self, stream: WorkStream, context: Context) -> None:
        """Until the worker ends its side, or this side hangs up, and has what it is owed; or the connection is gone."""
        with writing(stream.write_all(), "work_stream") as writer:
            try:
                with self._hanging_up.reading():
                    while (received := await context.read()) is not grpc.aio.EOF:
                        self._take(stream, received.message)
                        await stream.room()
                self._frontend.closing(stream)
                stream.close()
                await writer
            except (NotStored, asyncio.CancelledError) as ended:
                if is_refused(ended):
                    # A write that is cut off half-way would take the refusal with it.
                    stream.break_off()
                    await asyncio.wait({writer}, timeout=LAST_WRITE_S)
                raise
            finally:
                writer.cancel()
                # Where the connection is gone, its last write failed: that is known already.
                await asyncio.gather(writer, return_exceptions=True)

    def _open(self, stream: WorkStream, first: pb.WorkRequest) -> None:
        if first.WhichOneof("request") != "open":
            raise Invalid("The first request of a Work stream must be `open`: send it before anything else.", "open")
        asked = first.open
        plain_text(asked.worker, MAX_WORKER_CHARS, "worker", "open.worker")
        _check_tokens(asked.resume, "open.resume")
        _check_names([asked.stream], asked.replaces)
        pools = OwnPools(asked)
        credited = [queue_of(c.queue, "open.credits.queue") for c in asked.credits if not pools.credited(c, CREDITS)]
        if asked.merges_confirmed:
            stream.merge_confirmed()
        lease_ms = _lease_ms(asked.lease_ms)
        namespace = namespace_of(asked.namespace)
        keep_queue(namespace, None)
        self._frontend.join(stream, namespace, lease_ms, asked.stream, asked.worker)
        self._connected.join(stream.number, asked.worker, namespace)
        self._pools[stream.number] = pools
        for queue in (*credited, *pools.queues):
            self._credit(stream, queue, 0)
        for pool in pools.declared:
            self._frontend.declare_pool(stream, *pool)
        lost = self._frontend.resume(stream, asked.resume) if asked.resume else []
        for number in self._frontend.replaced(namespace, asked.replaces) if asked.replaces else ():
            if (call := self._calls.get(number)) is not None and number not in self._replaced:
                self._replaced.add(number)
                call.cancel()
        opened = pb.Opened(
            server=self._frontend.server,
            lease_ms=lease_ms,
            ack_token_bytes=ACK_TOKEN_BYTES,
            lost=b"".join(lost),
            knows_pools=True,
        )
        stream.push(pb.WorkResponse(opened=opened))
        for credit in asked.credits:
            self._take_credit(stream, credit, CREDITS)

    def _take(self, stream: WorkStream, request: pb.WorkRequest) -> None:
        kind = request.WhichOneof("request")
        if kind == "settle":
            self._settle(stream, request.settle)
            for credit in request.settle.credits:
                self._take_credit(stream, credit, "settle.credits")
        elif kind == "credit":
            self._take_credit(stream, request.credit, "credit")
        elif kind == "extend":
            _check_tokens(request.extend.ack_tokens, "extend.ack_tokens")
            for report in request.extend.reports:
                _check_tokens(report.ack_token, "extend.reports.ack_token")
                self._frontend.report(stream, report.ack_token, report_of(report, "extend.reports"))
            lost = self._frontend.extend(stream, request.extend.ack_tokens)
            if lost:
                stream.push(pb.WorkResponse(extended=pb.Extended(lost=b"".join(lost))), len(lost) * ACK_TOKEN_BYTES)
        else:
            raise Invalid("After `open` a Work stream takes credit, settle and extend: send one of these.", "request")

    def _take_credit(self, stream: WorkStream, credit: pb.Credit, field: str) -> None:
        if pool := self._pools[stream.number].credited(credit, field):
            self._frontend.free_slots(stream, pool, credit.tasks)
        else:
            self._credit(stream, queue_of(credit.queue, f"{field}.queue"), credit.tasks)

    def _credit(self, stream: WorkStream, queue: str, tasks: int) -> None:
        if not self._frontend.may_serve(stream, queue, MAX_QUEUES):
            raise Invalid(f"A worker serves at most {MAX_QUEUES} queues: open another stream for more.", "credit.queue")
        keep_queue(stream.namespace, queue)
        self._frontend.credit(stream, queue, tasks)
        self._connected.credit(stream.number, queue)

    def _settle(self, stream: WorkStream, asked: pb.Settle) -> None:
        """What is wrong with one message is said in its confirmation; the stream goes on."""
        try:
            _check_tokens(asked.ack_tokens, "settle.ack_tokens")
            action = _action(asked.action)
            if asked.HasField("result"):
                check_result(asked.result, asked.keep_result_ms, is_ack=action is Action.ACK, field="settle.result")
            throttle = throttle_of(asked, action, "settle.throttle")
        except Invalid as error:
            count = -(-len(asked.ack_tokens) // ACK_TOKEN_BYTES)
            refused = pb.SettleConfirmed(sequence=asked.sequence, refused=range(count), problem=problem_of(error))
            stream.owe(count)
            stream.answer(refused, count)
            return
        self._connected.settle(stream.number, len(asked.ack_tokens) // ACK_TOKEN_BYTES)
        if asked.HasField("result"):
            stream.owe(len(asked.ack_tokens) // ACK_TOKEN_BYTES)
            begin(self._settle_with_result(stream, asked), "work_service")
        else:
            self._hand_on(stream, asked, action, throttle)

    async def _settle_with_result(self, stream: WorkStream, asked: pb.Settle) -> None:
        """The result, THEN the end of the task. What a worker that has left said it says again on its next stream."""
        count = len(asked.ack_tokens) // ACK_TOKEN_BYTES
        try:
            tokens = [asked.ack_tokens[at * ACK_TOKEN_BYTES :][:ACK_TOKEN_BYTES] for at in range(count)]
            await self._kept(stream, asked, tokens)
        except TimerdError as failed:
            sentence = f"The result is not durable, so the task has not ended: say both again. {failed}"
            again = StoreUnavailable(sentence, "STORE_UNAVAILABLE", retry_after_ms=AGAIN_AFTER_MS)
            stream.confirm(Confirmation(asked.sequence, count, error=again))
            return
        stream.disown(count)
        if stream.number in self._calls:
            self._hand_on(stream, asked, Action.ACK, None)

    async def _kept(self, stream: WorkStream, asked: pb.Settle, tokens: Sequence[bytes]) -> None:
        """Its worker has said that it is done: nobody else gets the task while the store is slow. Raises what the store
        raises."""
        keeping = asyncio.ensure_future(
            self._results.keep(stream.namespace, tokens, asked.result, asked.keep_result_ms)
        )
        while stream.number in self._calls and not keeping.done():
            self._frontend.extend(stream, asked.ack_tokens)
            await asyncio.wait([keeping], timeout=EXTENDED_S)
        await keeping

    def _hand_on(self, stream: WorkStream, asked: pb.Settle, action: Action, throttle: Pushback | None) -> None:
        delay_ms = asked.delay_ms if asked.HasField("delay_ms") else None
        said = delay_ms, asked.error[:MAX_ERROR_CHARS], throttle
        self._frontend.settle(stream, asked.sequence, action, asked.ack_tokens, *said)


def _action(action: int) -> Action:
    try:
        return Action(action)
    except ValueError:
        raise Invalid("The action of a settle is missing: set ACK, NACK, REJECT or RELEASE.", "settle.action") from None


def _check_tokens(tokens: bytes, field: str) -> None:
    if len(tokens) % ACK_TOKEN_BYTES:
        raise Invalid(
            f"Ack tokens are {ACK_TOKEN_BYTES} bytes each, one after the other, and {len(tokens)} bytes came: "
            "send back the tokens of a Deliver message as they are.",
            field,
        )


def _check_names(own: Sequence[bytes], replaced: Sequence[bytes]) -> None:
    if len(replaced) > MAX_REPLACED or any(len(name) > MAX_NAME_BYTES for name in (*own, *replaced)):
        raise Invalid(
            f"A stream's name has {MAX_NAME_BYTES} bytes at most, and a stream replaces up to {MAX_REPLACED}: give it "
            "16 random bytes, and name those that ended last.",
            "open.replaces",
        )


def _lease_ms(asked_ms: int) -> int:
    lease_ms = asked_ms or DEFAULT_LEASE_MS
    if LEASES_MS[0] <= lease_ms <= LEASES_MS[1]:
        return lease_ms
    raise Invalid(
        f"lease_ms is {lease_ms}: use {LEASES_MS[0]} to {LEASES_MS[1]} (or leave it out for {DEFAULT_LEASE_MS}).",
        "open.lease_ms",
    )
