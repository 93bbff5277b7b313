"""TimerService on grpc.aio: every verb passes the same gate (budget, errors, drain), whatever way it came.

Mutations that have begun are carried through although their caller hangs up: the repeat with the same request_id then
finds a settled state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from timerd.config import ServerConfig
from timerd.model.errors import Invalid
from timerd.model.identity import DEFAULT_NAMESPACE
from timerd.services.calls.call_deadline import CallDeadline
from timerd.services.calls.call_times import CallTimes
from timerd.services.calls.calling import AnsweredCalls
from timerd.services.calls.cancelling import Cancelling
from timerd.services.calls.dead_letter_purge import DeadLetterPurge
from timerd.services.calls.gathering import Gathering, StoresSingles
from timerd.services.calls.ingest import IngestBudget
from timerd.services.calls.many_moves import ManyMoves
from timerd.services.calls.mutations import Mutations
from timerd.services.calls.queue_rules import NoRules, QueueRules
from timerd.services.calls.quotas import Quotas
from timerd.services.calls.reads import DeliveryFacts, OtherKeepers, Reads
from timerd.services.calls.results import KeptResults
from timerd.services.calls.target_board import TargetBoard
from timerd.services.calls.task_ends import TaskEnds
from timerd.services.engine.verbs import StoredTasks, Verbs
from timerd.services.operating.operating import Operating
from timerd.services.operating.watching import Watching
from timerd.services.transport.audit_records import AuditRecords
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.front_door import AsksTogether, CallOutcome
from timerd.services.transport.open_streams import end_by
from timerd.services.transport.permission import check_namespace
from timerd.services.transport.session import Session, SessionMessage
from timerd.services.transport.status import Context, abort, caught
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import watch_pb2
from timerd.v1.task_pb2 import Problem

_SERVICE = wire.DESCRIPTOR.services_by_name["TimerService"]
Verb = Callable[[Any], Awaitable[Message]]
Methods = dict[str, Any]
NO_RULES = NoRules()
# They take as long as they were asked to.
LONG = {"Wait", "Call"}
# They hold their part of the budget themselves, for as long as it is needed.
HOLD_THEMSELVES = {"Call"}


class TimerApi:
    """The servicer of timerd.v1.TimerService."""

    def __init__(
        self,
        verbs: Verbs,
        config: ServerConfig,
        delivery: Callable[[], DeliveryFacts] = DeliveryFacts,
        operating: Operating | None = None,
        call_deadline: CallDeadline | None = None,
        rules: QueueRules = NO_RULES,
        quotas: Quotas | None = None,
        audited: AuditRecords | None = None,
        watching: Watching | None = None,
        singles: StoresSingles | None = None,
        elsewhere: OtherKeepers | None = None,
        ends: TaskEnds | None = None,
    ) -> None:
        """Without `quotas` there are none. `audited`: where it is written down what operators do; None: nowhere.
        `watching` None: nothing is sent from here. `singles` stores what comes in one turn of the loop together; None:
        each call by itself. `elsewhere`: who keeps ordering keys, where there are other instances. `ends`: the callers
        that wait for ends of tasks."""
        self.audited = audited
        self.watching = watching
        self.ingest = IngestBudget(config.ingest_budget_bytes)
        self.calls = CallTimes()
        self.quotas = quotas or Quotas()
        self.ends = ends or TaskEnds()
        self.results = KeptResults(verbs, self.ends.kept)
        self._change = Mutations(verbs, config, rules, self.quotas, self.ends.told)
        self.calling = AnsweredCalls(self._change, verbs, self.ends, self.results, self.ingest, self._in_time)
        self._cancelling = Cancelling(self._change, verbs, self.ends)
        self._moves = ManyMoves(verbs, self._change.changed)
        self._dead = DeadLetterPurge(verbs, self._change.changed)
        self.targets = TargetBoard()
        self._look = Reads(verbs, config, delivery, rules, self.ends, self.results, self.targets, elsewhere)
        # As operators see it: what takes the calls of gRPC.
        self.front_door = ""
        self._operating = operating
        self._call_deadline = call_deadline or CallDeadline()
        self._sessions: set[Session] = set()
        self._running: set[asyncio.Task[Any]] = set()
        self._gathering: Gathering | None = None
        if singles is not None:
            by_itself = partial(self._answered_by_itself, "Schedule", self._change.schedule)
            ways = by_itself, partial(self._within_deadline, "Schedule"), self._start
            self._gathering = Gathering(self._change, verbs.now_ms, singles, self.ingest, *ways)

    @property
    def changed(self) -> Mapping[str, int]:
        return self._change.changed

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    def verbs(self) -> dict[str, Verb]:
        """Unary method of the service -> what answers it."""
        change, look = self._change, self._look
        return {
            "Schedule": change.schedule,
            "ScheduleBatch": change.schedule_batch,
            "Call": self.calling.call,
            "Cancel": self._cancelling.cancel,
            "CancelBatch": change.cancel_batch,
            "Reschedule": change.reschedule,
            "RescheduleBatch": self._moves.reschedule_batch,
            "FireNow": change.fire_now,
            "Get": look.get,
            "Wait": look.wait,
            "List": look.list,
            "Count": look.count,
            "Purge": change.purge,
            "ListDeadLetters": look.list_dead_letters,
            "PurgeDeadLetters": self._dead.purge_dead_letters,
            "Redrive": change.redrive,
            "GetServerInfo": self._get_server_info,
            **self._verbs_of_operators(),
        }

    async def _get_server_info(self, request: wire.GetServerInfoRequest) -> wire.GetServerInfoResponse:
        info = await self._look.get_server_info(request)
        info.front_door = self.front_door
        return info

    def _verbs_of_operators(self) -> dict[str, Verb]:
        operate = self._operating
        if operate is None:
            return {}
        return {
            "GetCluster": operate.get_cluster,
            "GetPartition": operate.get_partition,
            "DrainInstance": operate.drain_instance,
            "AnnounceLoad": operate.announce_load,
            "SweepZones": operate.sweep_zones,
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """For `grpc.aio.Server.add_generic_rpc_handlers`."""
        methods = self._methods(_SERVICE, self.verbs())
        methods["Session"] = grpc.stream_stream_rpc_method_handler(
            self._session, _deserializer(_SERVICE, "Session"), lambda reply: reply.SerializeToString()
        )
        if self.watching is not None:
            methods["Watch"] = grpc.unary_stream_rpc_method_handler(
                self._watch, _deserializer(_SERVICE, "Watch"), lambda reply: reply.SerializeToString()
            )
        return grpc.method_handlers_generic_handler(_SERVICE.full_name, methods)

    def handler_of(self, name: str, verbs: Mapping[str, Verb]) -> grpc.GenericRpcHandler:
        """Of another service of timerd.v1, whose calls pass the same gate."""
        service = descriptor_pool.Default().FindServiceByName(f"{_SERVICE.file.package}.{name}")
        return grpc.method_handlers_generic_handler(service.full_name, self._methods(service, verbs))

    def _methods(self, service: ServiceDescriptor, verbs: Mapping[str, Verb]) -> Methods:
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._unary(name, verb), _deserializer(service, name), lambda reply: reply.SerializeToString()
            )
            for name, verb in verbs.items()
        }

    def drain(self) -> None:
        """Sessions read no further and end when what they read is answered; who waits for an end waits no more."""
        self.ends.stop()
        if self.watching is not None:
            self.watching.stop()
        for session in self._sessions:
            session.stop()

    async def finished(self, grace_ms: int) -> None:
        """Until all that has begun is answered; what is not within the grace is given up: its outcome is unknown."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + grace_ms / 1000
        # What has begun may begin more.
        while self._running and (left_s := until_s - loop.time()) > 0:
            await asyncio.wait(set(self._running), timeout=left_s)
        for task in list(self._running):
            task.cancel()

    def _unary(self, name: str, verb: Verb) -> Callable[[Received[Any], Context], Awaitable[Message]]:
        is_gathered = name == "Schedule" and self._gathering is not None
        ask = self._gathering.ask if self._gathering is not None and is_gathered else partial(self._asked, name, verb)

        async def handle(received: Received[Any], context: Context) -> Message:
            began_s = perf_counter()
            outcome = await ask(received)
            self.calls.end(name, outcome, perf_counter() - began_s)
            if isinstance(outcome, Problem):
                await abort(context, outcome)
            reply: Message = outcome
            return reply

        return handle

    async def _asked(self, name: str, verb: Verb, received: Received[Any]) -> Any:  # noqa: ANN401 - a reply, or a Problem
        work = caught(self._gated(verb, received, name))
        if self._call_deadline.is_limited and name not in LONG:
            return await self._call_deadline.outcome(name, work, self._start)
        return await asyncio.shield(self._start(work))

    async def _in_time(self, work: Coroutine[Any, Any, StoredTasks]) -> StoredTasks:
        if not self._call_deadline.is_limited:
            return await work
        stored: StoredTasks = await self._call_deadline.result("Call", work, self._start)
        return stored

    async def _answered_by_itself(self, name: str, verb: Verb, received: Received[Any]) -> Any:  # noqa: ANN401 - as above
        """As `_asked`, in a task that its caller does not cancel."""
        return await self._within_deadline(name, caught(self._gated(verb, received)))

    async def _within_deadline(self, name: str, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever it gives
        if self._call_deadline.is_limited:
            return await self._call_deadline.outcome(name, work, self._start)
        return await work

    async def _gated(self, verb: Verb, received: Received[Any], name: str = "") -> Message:
        if name in HOLD_THEMSELVES:
            return await verb(received.message)
        with self.ingest.hold(received.size_bytes):
            return await verb(received.message)

    def together(self) -> Mapping[str, AsksTogether]:
        """Paths of methods, and what carries their calls out together where they came together."""
        gathering = self._gathering
        if gathering is None:
            return {}
        read = decoder(wire.ScheduleRequest)

        def ask(raw: bytes, told: Callable[[CallOutcome | None], None]) -> None:
            began_s = perf_counter()

            def over(outcome: CallOutcome | None) -> None:
                if outcome is not None:
                    self.calls.end("Schedule", outcome, perf_counter() - began_s)
                told(outcome)

            gathering.tell(read(raw), over)

        return {f"/{_SERVICE.full_name}/Schedule": ask}

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _session(self, _requests: object, context: Context) -> None:
        session = Session(context, self.answer, self._start)
        self._sessions.add(session)
        end_by(session.stop)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    async def _watch(self, received: Received[watch_pb2.WatchRequest], context: Context) -> None:
        assert self.watching is not None
        await self.watching.watch(received.message, context.write)

    async def answer(self, received: SessionMessage) -> wire.SessionResponse:
        """One message of a Session; its errors are part of the answer."""
        sequence = received.parsed.sequence if received.parsed else 0
        began_s = perf_counter()
        name, work = _name(received), caught(self._gated(self._answered, received))
        is_limited = self._call_deadline.is_limited
        reply = await (self._call_deadline.outcome(name, work, self._start) if is_limited else work)
        self.calls.end(name, reply, perf_counter() - began_s)
        if isinstance(reply, Problem):
            return wire.SessionResponse(sequence=sequence, problem=reply)
        assert isinstance(reply, wire.SessionResponse)
        reply.sequence = sequence
        return reply

    async def _answered(self, request: wire.SessionRequest) -> wire.SessionResponse:
        which = request.WhichOneof("request")
        if which is not None:
            check_namespace(getattr(request, which).namespace or DEFAULT_NAMESPACE)
        if which == "schedule":
            return wire.SessionResponse(schedule=await self._change.schedule_batch(request.schedule))
        if which == "cancel":
            return wire.SessionResponse(cancel=await self._change.cancel_batch(request.cancel))
        if which == "reschedule":
            return wire.SessionResponse(reschedule=await self._change.reschedule(request.reschedule))
        raise Invalid("The message asks for nothing: fill schedule, cancel or reschedule.", "request")


def _name(received: SessionMessage) -> str:
    which = received.parsed.WhichOneof("request") if received.parsed else None
    return f"Session.{which or 'nothing'}"


def _deserializer(service: ServiceDescriptor, method: str) -> Callable[[bytes], Received[Message]]:
    return decoder(GetMessageClass(service.methods_by_name[method].input_type))
