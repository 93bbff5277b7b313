"""Lets a call pass if its caller is known and has the role that the method needs, in the namespace that it names;
nothing is done for it before. A stream ends when its caller may no longer have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import grpc
import grpc.aio

from timerd.model.errors import Denied, NotStored
from timerd.model.identity import DEFAULT_NAMESPACE
from timerd.services.transport.decoding import Received
from timerd.services.transport.handlers import Behaviour, Handler, answered, behaviour_of, remade
from timerd.services.transport.open_streams import OpenStreams
from timerd.services.transport.permission import Permission, enter
from timerd.services.transport.principals import Principal, Principals
from timerd.services.transport.redaction import redacted
from timerd.services.transport.roles import INSPECT, OPERATE, SCHEDULE, VIEW, WORK
from timerd.services.transport.status import Context, abort, problem_of

_TIMER, _WORKER = "/timerd.v1.TimerService/", "/timerd.v1.WorkService/"
_SCHEDULES = "/timerd.v1.ScheduleService/"
_OVERVIEW = "/timerd.v1.OverviewService/"
_CYCLES = "/timerd.v1.CycleService/"
_REGULATION = "/timerd.v1.RegulationService/"
_SCALER = "/externalscaler.ExternalScaler/"
_CHANGES = (
    *("Schedule", "ScheduleBatch", "Session", "Call", "Cancel", "CancelBatch"),
    *("Reschedule", "RescheduleBatch", "FireNow"),
)
_READS = ("Get", "Wait", "Watch", "List", "Count")
_SCHEDULE_CHANGES = (
    *("CreateSchedule", "CreateScheduleBatch", "TriggerSchedule", "UpdateSchedule", "PauseSchedule", "ResumeSchedule"),
    *("DeleteSchedule", "PruneSchedules", "CreateBackfill", "CancelBackfill"),
)
_SCHEDULE_READS = ("GetSchedule", "ListSchedules", "PreviewSchedule", "GetBackfill", "ListBackfills")
_CYCLE_CHANGES = (
    *("CreateCycle", "PauseCycle", "ResumeCycle", "DeleteCycle", "FillSlot"),
    *("PutMembers", "RemoveMembers", "RebalanceCycle"),
)
_CYCLE_READS = ("GetCycle", "ListCycles")
REGULATION_WRITES = ("SetMode", "PutQueue", "UpdateQueue", "PutLimit", "DeleteLimit", "SkipKey")
_REGULATION_READS = ("GetQueue", "ListQueues", "GetLimit", "ListLimits", "ListKeys")
# Of the server as a whole, also where the message names a namespace.
_OF_THE_SERVER = ("GetServerInfo", "GetCluster", "GetPartition", "DrainInstance", "AnnounceLoad", "SweepZones")
_OF_AUTOSCALERS = ("IsActive", "StreamIsActive", "GetMetricSpec", "GetMetrics")
# Method -> the roles of which it needs one. A method that is not here is nobody's.
NEEDED = {
    **{f"{_TIMER}{name}": (SCHEDULE,) for name in _CHANGES},
    **{f"{_TIMER}{name}": (SCHEDULE, INSPECT, VIEW) for name in _READS},
    **{f"{_TIMER}{name}": (OPERATE,) for name in ("Purge", "PurgeDeadLetters", "Redrive", *_OF_THE_SERVER)},
    **{f"{_TIMER}{name}": (OPERATE, INSPECT, VIEW) for name in ("ListDeadLetters",)},
    **{f"{_SCHEDULES}{name}": (SCHEDULE,) for name in _SCHEDULE_CHANGES},
    **{f"{_SCHEDULES}{name}": (SCHEDULE, INSPECT, VIEW) for name in _SCHEDULE_READS},
    **{f"{_CYCLES}{name}": (SCHEDULE,) for name in _CYCLE_CHANGES},
    **{f"{_CYCLES}{name}": (SCHEDULE, INSPECT, VIEW) for name in _CYCLE_READS},
    # Of a member there is little but its payload.
    f"{_CYCLES}ListMembers": (SCHEDULE, INSPECT),
    **{f"{_REGULATION}{name}": (OPERATE,) for name in REGULATION_WRITES},
    **{f"{_REGULATION}{name}": (OPERATE, INSPECT, VIEW) for name in _REGULATION_READS},
    **{f"{_WORKER}{name}": (WORK,) for name in ("Work", "Receive", "Finish", "Extend")},
    **{f"{_OVERVIEW}{name}": (OPERATE,) for name in ("GetOverview", "ListAuditedCalls")},
    f"{_OVERVIEW}GetLoad": (OPERATE, INSPECT, VIEW),
    **{f"{_SCALER}{name}": (OPERATE,) for name in _OF_AUTOSCALERS},
}
SERVER_WIDE = {
    *(f"{_TIMER}{name}" for name in _OF_THE_SERVER),
    *(f"{_SCALER}{name}" for name in _OF_AUTOSCALERS),
    *(f"{_OVERVIEW}{name}" for name in ("GetOverview", "ListAuditedCalls")),
}
# Their messages name the namespace, one after the other: who takes them asks (transport/permission.py).
STREAMS = {f"{_TIMER}Session", f"{_WORKER}Work"}
# They wait for long, so they end as streams do when their caller may no longer have them.
WAITING = {f"{_WORKER}Receive", f"{_TIMER}Wait", f"{_TIMER}Call"}
# Health is for all who watch; other instances show a secret of their own.
OPEN = ("/grpc.health.v1.Health/", "/timerd.peer.v1.")
# For every caller that is known.
_OF_ALL = ("/grpc.reflection.",)
_BEARER = "bearer "
# Of a stream that has not named its namespace yet.
ANYWHERE = ""


class Access(grpc.aio.ServerInterceptor):
    """In force where there is a file of principals."""

    def __init__(self, principals: Principals) -> None:
        self._principals = principals
        self._streams = OpenStreams(principals.refresh)
        principals.on_change(self._streams.look)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler: Any = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method.startswith(OPEN):
            return handler  # type: ignore[no-any-return]
        is_stream = handler.request_streaming or handler.response_streaming or method in WAITING
        return remade(handler, self._checked(behaviour_of(handler), method, is_stream))

    def _checked(self, behaviour: Behaviour, method: str, is_stream: bool) -> Behaviour:
        async def run(request: object, context: Context) -> object:
            permission = Permission(partial(self._caller, context), partial(allow, method))
            try:
                self._principals.refresh()
                await self._principals.prepare(_token(context) or "")
                _admit(permission, method, request)
                is_whole = shows_contents(method, permission.caller(), _namespace_of(request))
                with self._streams.one(permission.check_kept) if is_stream else nullcontext():
                    reply = await answered(behaviour(request, context), context)
                return reply if is_whole else redacted(reply)
            except NotStored as error:
                await abort(context, problem_of(error))

        return run

    def _caller(self, context: Context) -> Principal | None:
        """By its token, or by its certificate."""
        token = _token(context)
        if token is None:
            return self._principals.of_names(_names(context))
        return self._principals.of_token(token)


def _token(context: Context) -> str | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization" and str(value).lower().startswith(_BEARER):
            return str(value)[len(_BEARER) :].strip()
    return None


def _admit(permission: Permission, method: str, request: object) -> None:
    """Raises Unauthenticated or Denied."""
    enter(permission)
    if method in STREAMS or method.startswith(_OF_ALL):
        permission.keep(ANYWHERE)
    elif method in SERVER_WIDE:
        permission.keep(None)
    else:
        for queue in _queues_of(request) if method in WAITING else (None,):
            permission.keep(_namespace_of(request), queue)


def _message_of(request: object) -> Any:  # noqa: ANN401 - of any method
    return request.parsed if isinstance(request, Received) else request


def _queues_of(request: object) -> Sequence[str | None]:
    """None: whichever."""
    message = _message_of(request)
    queues, queue = getattr(message, "queues", ()), getattr(message, "queue", None)
    return [*queues, queue] if queue or not queues else [*queues]


def _namespace_of(request: object) -> str:
    return getattr(_message_of(request), "namespace", "") or DEFAULT_NAMESPACE


def shows_contents(method: str, caller: Principal | None, namespace: str) -> bool:
    """Whether the caller may do it by another role than `view`, which shows no payloads and no errors."""
    needed = set(NEEDED.get(method, ()))
    if VIEW not in needed or caller is None:
        return True
    return any(role.name in needed - {VIEW} and role.is_for(namespace, None) for role in caller.roles)


def allow(method: str, caller: Principal, namespace: str | None, queue: str | None = None) -> None:
    """Raises Denied where none of the caller's roles is for this method in this place."""
    if method.startswith(_OF_ALL):
        return
    needed, name = NEEDED.get(method, ()), method.rpartition("/")[2]
    having = [role for role in caller.roles if role.name in needed]
    if any(namespace == ANYWHERE or role.is_for(namespace, queue) for role in having):
        return
    raise Denied(
        f"{caller.name} may not call {name}{_place(namespace, queue) if having else ''}: it needs the role "
        f"{' or '.join(needed) or 'of nobody'}, and {caller.name} has {', '.join(sorted(map(str, caller.roles)))}. Ask "
        "the operator of the server for it.",
        "ROLE_MISSING",
    )


def _place(namespace: str | None, queue: str | None) -> str:
    if namespace is None:
        return " for the whole server"
    return f" in the namespace {namespace!r:.80}" + (f", queue {queue!r:.150}" if queue else "")


def _names(context: Context) -> Iterator[str]:
    shown: Any = context.auth_context() or {}
    for property_name in ("x509_subject_alternative_name", "x509_common_name"):
        for value in shown.get(property_name, ()):
            yield value.decode("utf-8", "replace")
