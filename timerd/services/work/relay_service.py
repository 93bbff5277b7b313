"""The side of the relay that has the tasks: to delivery, each worker of a home that lends credit is one more worker.

What it is sent goes through its home's stream; what is said for it comes from there. A home that is gone is so many
broken Work streams at once, and its workers may come back through another one within the same grace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from timerd.core.dispatch import Action, Ask, Assignment, InterruptReason
from timerd.core.taken import QueueKey
from timerd.model.errors import Unavailable
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.model.progress import ProgressReport
from timerd.peer.v1 import relay_pb2 as pb
from timerd.services.background import writing
from timerd.services.calls.throttles import throttle_of
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.peers.peer_service import admit
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.transport.status import Context
from timerd.services.work.asking import Asking
from timerd.services.work.confirm_wire import confirmed_of
from timerd.services.work.deliver_wire import deliver_messages, tokens_at
from timerd.services.work.interrupt_wire import reason_message
from timerd.v1 import work_service_pb2 as work_pb

SERVICE = pb.DESCRIPTOR.services_by_name["RelayService"].full_name
LookedFor = Callable[[pb.AckLookedFor], None]
# Of workers that only stand for the queues of their home.
SERVED_LEASE_MS = 30_000
# How long the end of a broken stream waits for a home that does not read.
LAST_WRITE_S = 1.0


class RelayedWorker:
    """Implements services.dispatch.ports.Sink: one worker of a home. `worker` is its number there."""

    counts_as_worker = False
    takes_backlog = True

    def __init__(self, delivery: Delivery, home: HomeStream, worker: int, namespace: str) -> None:
        self.number = delivery.next_number()
        self.closing = False
        self.namespace = namespace
        self._delivery = delivery
        self._home = home
        self._worker = worker
        # Sent, and not out of the home yet.
        self._under_way_bytes = 0
        self._blocked = False

    def deliver(self, assignment: Assignment) -> Sent:
        messages = sent_bytes = 0
        for response, size_bytes in deliver_messages(assignment, self._delivery.secret):
            self._home.send(pb.RelayResponse(deliver=_relayed(self._worker, response, size_bytes)))
            messages += 1
            sent_bytes += size_bytes
        self._under_way_bytes += sent_bytes
        return Sent(messages, sent_bytes)

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        said = pb.RelayInterrupt(worker=self._worker, ack_tokens=tokens, reason=reason_message(reason))
        self._home.send(pb.RelayResponse(interrupted=said))

    def go_away(self) -> None:
        """The home itself says that this instance goes away, by its credit."""

    def block_if_full(self) -> bool:
        if self._blocked or self._under_way_bytes < self._delivery.stream_bytes():
            return False
        self._blocked = True
        return True

    def written(self, size_bytes: int) -> None:
        self._under_way_bytes -= size_bytes
        if self._blocked and self._under_way_bytes < self._delivery.stream_bytes() // 2:
            self._blocked = False
            self._delivery.room(self.number)

    def moved(self, tokens: bytes) -> None:
        """Another instance has these from now on."""
        self._home.send(pb.RelayResponse(moved=pb.DeliveriesMoved(worker=self._worker, ack_tokens=tokens)))

    def owe(self, tokens: int) -> None:
        """The home counts what it owes."""

    def confirm(self, confirmation: Confirmation) -> None:
        confirmed = confirmed_of(confirmation)
        settled = pb.RelaySettled(sequence=confirmed.sequence, refused=confirmed.refused, states=confirmed.states)
        if confirmed.HasField("problem"):
            settled.problem.CopyFrom(confirmed.problem)
        self._home.send(pb.RelayResponse(settled=settled))


class HomeStream:
    """One stream from a home."""

    def __init__(
        self,
        delivery: Delivery,
        asking: Asking,
        goes_away: Callable[[str], bool],
        looked_for: LookedFor = lambda _: None,
    ) -> None:
        self.number = delivery.next_number()
        self._goes_away = goes_away
        self._delivery = delivery
        self._asking = asking
        self._workers: dict[int, RelayedWorker] = {}
        # Queue -> workers with credit for it, perhaps.
        self._granted_for: dict[QueueKey, set[int]] = {}
        # Namespace -> who stands for the home's queues in it.
        self._present: dict[str, RelayedWorker] = {}
        self._waiting: deque[pb.RelayResponse] = deque()
        self._changed = asyncio.Event()
        self._takes: dict[str, Callable[[Any], None]] = {
            "open": self._open,
            "served": self._served,
            "opened": self._opened,
            "granted": self._granted,
            "revoked": self._revoked,
            "settle": self._settle,
            "extend": self._extend,
            "report": self._report,
            "resume": self._resume,
            "release": self._release,
            "written": self._written,
            "left": self._left,
            "leaving": self._leaving,
            "replaced": self._replaced,
            "looked_for": looked_for,
        }
        # The home goes away: its workers go to other ones.
        self._is_leaving = self._is_closing = False
        self._name = ""

    def send(self, response: pb.RelayResponse) -> None:
        self._waiting.append(response)
        self._changed.set()

    async def write_all(self, context: Context) -> None:
        """The one writer."""
        while self._waiting or not self._is_closing:
            while self._waiting:
                await context.write(self._waiting.popleft())
            self._changed.clear()
            if not self._is_closing:
                await self._changed.wait()

    def close(self) -> None:
        """`write_all` ends when everything is written."""
        self._is_closing = True
        self._changed.set()

    def take(self, request: pb.RelayRequest) -> None:
        kind = request.WhichOneof("request")
        if kind in self._takes:
            self._takes[kind](getattr(request, kind))

    def over(self) -> None:
        """The stream is gone, and with it all its workers."""
        self._asking.home_gone(self.number)
        # It may have said so in what was lost with the stream.
        self._is_leaving |= self._goes_away(self._name)
        self._take_back()
        for worker in [*self._workers.values(), *self._present.values()]:
            self._leave(worker)

    def ask(self, ask: Ask) -> None:
        namespace, queue = ask.queue
        wanted = pb.CreditWanted(namespace=namespace, queue=queue, tasks=ask.tasks, order_key=ask.key)
        self.send(pb.RelayResponse(wanted=wanted))

    def give_back(self, queue: QueueKey) -> None:
        """Nothing is due here for the credit that is left."""
        for number in self._granted_for.pop(queue, ()):
            worker = self._workers.get(number)
            if worker is not None and (tasks := self._delivery.machine.withdraw(worker.number, queue)):
                self._return(number, queue, tasks)

    # -- requests -------------------------------------------------------------------------------------------------

    def _open(self, said: pb.RelayOpen) -> None:
        self._name = said.home

    def _served(self, said: pb.QueueServed) -> None:
        queue = QueueKey(said.namespace, said.queue)
        worker = self._present.get(said.namespace)
        if worker is None and said.served:
            worker = self._join(0, said.namespace, SERVED_LEASE_MS)
            if worker is not None:
                self._present[said.namespace] = worker
        if worker is None:
            return
        if said.served:
            self._delivery.credit(worker, said.queue, 0)
            self._asking.serve(self, queue)
        else:
            self._delivery.leave(worker, queue)
            self._asking.leave(self.number, queue)
            self._granted_for.pop(queue, None)

    def _opened(self, said: pb.WorkerOpened) -> None:
        worker = self._join(said.worker, said.namespace, said.lease_ms, said.stream, said.worker_name)
        if worker is not None:
            self._workers[said.worker] = worker

    def _granted(self, said: pb.CreditGranted) -> None:
        worker = self._workers.get(said.worker)
        if worker is None:
            self.send(pb.RelayResponse(returned=pb.CreditReturned(**_loan(said), tasks=said.tasks)))
            return
        queue = QueueKey(worker.namespace, said.queue)
        self._granted_for.setdefault(queue, set()).add(said.worker)
        self._asking.granted(self.number, queue, said.tasks)
        self._delivery.credit(worker, said.queue, said.tasks)

    def _revoked(self, said: pb.CreditRevoked) -> None:
        worker = self._workers.get(said.worker)
        tasks = 0
        if worker is not None:
            queue = QueueKey(worker.namespace, said.queue)
            tasks = self._delivery.machine.withdraw(worker.number, queue)
        self.send(pb.RelayResponse(returned=pb.CreditReturned(**_loan(said), tasks=tasks)))

    def _settle(self, said: pb.RelaySettle) -> None:
        delay_ms = said.delay_ms if said.HasField("delay_ms") else None
        worker = self._workers.get(said.worker) or RelayedWorker(self._delivery, self, 0, said.namespace)
        action = Action(said.action)
        throttle = throttle_of(said, action, "throttle")
        self._delivery.settle(worker, said.sequence, action, said.ack_tokens, delay_ms, said.error, throttle)

    def _extend(self, said: pb.RelayExtend) -> None:
        worker = self._workers.get(said.worker)
        lost = self._delivery.extend(worker, said.ack_tokens) if worker is not None else []
        self.send(pb.RelayResponse(extended=pb.RelayExtended(sequence=said.sequence, lost=b"".join(lost))))

    def _report(self, said: pb.RelayReport) -> None:
        if (worker := self._workers.get(said.worker)) is not None:
            self._delivery.report(worker, said.ack_token, ProgressReport(said.progress, said.age_ms))

    def _resume(self, said: pb.RelayResume) -> None:
        worker = self._workers.get(said.worker)
        resumed = pb.RelayResumed(sequence=said.sequence)
        if worker is not None:
            resumed.adopted, resumed.lost = self._adopt(worker, said.ack_tokens, said.holds_unknown)
        self.send(pb.RelayResponse(resumed=resumed))

    def _adopt(self, worker: RelayedWorker, tokens: bytes, holds_unknown: bool) -> tuple[bytes, bytes]:
        """Those that are the worker's from now on, and those that are not its any more."""
        known = self._delivery.machine.open_among(worker.namespace, tokens)
        held = self._delivery.resumed(worker, tokens, known_only=not holds_unknown)
        gone = set(held.lost)
        each = [tokens[at : at + ACK_TOKEN_BYTES] for at in range(0, len(tokens), ACK_TOKEN_BYTES)]
        adopted = [token for token, is_open in zip(each, known, strict=True) if is_open and token not in gone]
        lost = [token for token, is_open in zip(each, known, strict=True) if is_open and token in gone]
        return b"".join(adopted), b"".join(lost)

    def _release(self, said: pb.RelayRelease) -> None:
        worker = self._workers.get(said.worker)
        if worker is not None:
            self._delivery.release(worker.namespace, said.ack_tokens)

    def _written(self, said: pb.BytesWritten) -> None:
        worker = self._workers.get(said.worker)
        if worker is not None:
            worker.written(said.size_bytes)

    def _left(self, said: pb.WorkerLeft) -> None:
        worker = self._workers.pop(said.worker, None)
        if worker is not None:
            self._leave(worker)

    def _replaced(self, said: pb.StreamsReplaced) -> None:
        self._delivery.replaced(said.namespace, said.streams)

    def _leaving(self, _: pb.HomeLeaving) -> None:
        self._is_leaving = True

    # -- inside ---------------------------------------------------------------------------------------------------

    def _take_back(self) -> None:
        """Deliveries that never left are nobody's."""
        unsent, self._waiting = self._waiting, deque()
        for each in unsent:
            worker = self._workers.get(each.deliver.worker) if each.HasField("deliver") else None
            if worker is not None:
                said = each.deliver
                tokens = said.response[said.tokens_at : said.tokens_at + said.tasks * ACK_TOKEN_BYTES]
                self._delivery.settle(worker, 0, Action.RELEASE, tokens, None, "")

    def _join(
        self, number: int, namespace: str, lease_ms: int, name: bytes = b"", called: str = ""
    ) -> RelayedWorker | None:
        """None: this instance is going away."""
        worker = RelayedWorker(self._delivery, self, number, namespace)
        try:
            self._delivery.join(worker, namespace, lease_ms, name, called)
        except Unavailable:
            return None
        return worker

    def _leave(self, worker: RelayedWorker) -> None:
        worker.closing = True
        self._delivery.left(worker, keeps_leases=self._is_leaving)

    def _return(self, number: int, queue: QueueKey, tasks: int) -> None:
        self.send(pb.RelayResponse(returned=pb.CreditReturned(worker=number, queue=queue.queue, tasks=tasks)))


def _relayed(worker: int, response: work_pb.WorkResponse, size_bytes: int) -> pb.RelayDeliver:
    """The response as its worker is to get it, and beside it where its tokens are, for the home keeps these."""
    deliver = response.deliver
    return pb.RelayDeliver(
        worker=worker,
        queue=deliver.queue,
        tasks=len(deliver.ack_tokens) // ACK_TOKEN_BYTES,
        response=response.SerializeToString(),
        tokens_at=tokens_at(response),
        size_bytes=size_bytes,
    )


class RelayService:
    """`token`: what the instances of the cluster show each other. `goes_away`: whether an instance has said in the
    store that it leaves. `looked_for` hears of what was acked elsewhere."""

    def __init__(
        self,
        delivery: Delivery,
        asking: Asking,
        token: str,
        goes_away: Callable[[str], bool] = lambda _: False,
        hanging_up: HangingUp | None = None,
        looked_for: LookedFor = lambda _: None,
    ) -> None:
        self._goes_away = goes_away
        self._looked_for = looked_for
        self._hanging_up = hanging_up or HangingUp()
        self._delivery = delivery
        self._asking = asking
        self._token = token

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        method = grpc.stream_stream_rpc_method_handler(
            self.relay, decoder(pb.RelayRequest), pb.RelayResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Relay": method})

    async def relay(self, _: AsyncIterator[Received[pb.RelayRequest]], context: Context) -> None:
        await admit(context, self._token)
        home = HomeStream(self._delivery, self._asking, self._goes_away, self._looked_for)
        with writing(home.write_all(context), "relay") as writer:
            # Now the home knows that it is heard.
            home.send(pb.RelayResponse())
            try:
                with self._hanging_up.reading():
                    while (received := await context.read()) is not grpc.aio.EOF:
                        home.take(received.message)
                home.close()
                await writer
            except Exception:
                # A write that is cut off half-way would take the status with it.
                home.close()
                await asyncio.wait({writer}, timeout=LAST_WRITE_S)
                raise
            finally:
                home.over()
                writer.cancel()
                # Where the connection is gone, its last write failed: that is known already.
                await asyncio.gather(writer, return_exceptions=True)


def _loan(said: pb.CreditGranted | pb.CreditRevoked) -> dict[str, Any]:
    return {"worker": said.worker, "queue": said.queue}
