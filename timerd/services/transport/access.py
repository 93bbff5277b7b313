"""Lets a call pass if its caller is known and has the role that the method needs; nothing is done for it before. A
stream ends when its caller may no longer have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any

import grpc
import grpc.aio

from timerd.model.errors import Denied, NotStored, Unauthenticated
from timerd.services.transport.handlers import Behaviour, Handler, answered, behaviour_of, remade
from timerd.services.transport.open_streams import OpenStreams
from timerd.services.transport.principals import OPERATE, ROLES, SCHEDULE, WORK, Principal, Principals
from timerd.services.transport.status import Context, abort, problem_of

_TIMER, _WORKER = "/timerd.v1.TimerService/", "/timerd.v1.WorkService/"
_SCHEDULES = "/timerd.v1.ScheduleService/"
_OVERVIEW = "/timerd.v1.OverviewService/"
_CYCLES = "/timerd.v1.CycleService/"
_SCALER = "/externalscaler.ExternalScaler/"
_OF_CALLERS = (
    *("Schedule", "ScheduleBatch", "Session", "Cancel", "CancelBatch", "Reschedule", "FireNow"),
    *("Get", "List", "Count"),
)
_OF_SCHEDULES = (
    *("CreateSchedule", "CreateScheduleBatch", "GetSchedule", "ListSchedules", "PreviewSchedule", "TriggerSchedule"),
    *("UpdateSchedule", "PauseSchedule", "ResumeSchedule", "DeleteSchedule", "PruneSchedules"),
    *("CreateBackfill", "GetBackfill", "ListBackfills", "CancelBackfill"),
)
_OF_CYCLES = (
    *("CreateCycle", "GetCycle", "ListCycles", "PauseCycle", "ResumeCycle", "DeleteCycle", "FillSlot"),
    *("PutMembers", "RemoveMembers", "ListMembers"),
)
_OF_OPERATORS = (
    *("Purge", "ListDeadLetters", "Redrive"),
    *("GetServerInfo", "GetCluster", "GetPartition", "DrainInstance", "AnnounceLoad", "SweepZones"),
)
# Method -> the role it needs. A method that is not here is nobody's.
NEEDED = {
    **{f"{_TIMER}{name}": SCHEDULE for name in _OF_CALLERS},
    **{f"{_TIMER}{name}": OPERATE for name in _OF_OPERATORS},
    **{f"{_SCHEDULES}{name}": SCHEDULE for name in _OF_SCHEDULES},
    **{f"{_CYCLES}{name}": SCHEDULE for name in _OF_CYCLES},
    **{f"{_WORKER}{name}": WORK for name in ("Work", "Receive", "Finish", "Extend")},
    **{f"{_OVERVIEW}{name}": OPERATE for name in ("GetOverview", "GetLoad")},
    **{f"{_SCALER}{name}": OPERATE for name in ("IsActive", "StreamIsActive", "GetMetricSpec", "GetMetrics")},
}
# They wait for long, so they end as streams do when their caller may no longer have them.
WAITING = {f"{_WORKER}Receive"}
# Health is for all who watch; other instances show a secret of their own.
OPEN = ("/grpc.health.v1.Health/", "/timerd.peer.v1.")
# For every caller that is known.
_OF_ALL = ("/grpc.reflection.",)
_BEARER = "bearer "


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
            check = partial(self._check, context, method)
            try:
                self._principals.refresh()
                check()
                with self._streams.one(check) if is_stream else nullcontext():
                    return await answered(behaviour(request, context), context)
            except NotStored as error:
                await abort(context, problem_of(error))

        return run

    def _check(self, context: Context, method: str) -> None:
        """Raises Unauthenticated or Denied."""
        allow(self._caller(context), method)

    def _caller(self, context: Context) -> Principal | None:
        """By its token, or by its certificate."""
        for name, value in context.invocation_metadata() or ():
            if name == "authorization" and str(value).lower().startswith(_BEARER):
                return self._principals.of_token(str(value)[len(_BEARER) :].strip())
        return self._principals.of_names(_names(context))


def allow(caller: Principal | None, method: str) -> None:
    """Raises Unauthenticated or Denied."""
    if caller is None:
        raise Unauthenticated(
            "This server asks who calls, and it does not know this caller: show a token (`token=`, --token-file) or "
            "the client certificate that was agreed on.",
            "UNAUTHENTICATED",
        )
    if method.startswith(_OF_ALL):
        return
    needed, name = NEEDED.get(method), method.rpartition("/")[2]
    if needed is None or needed not in caller.roles:
        roles = ", ".join(role for role in ROLES if role in caller.roles)
        raise Denied(
            f"{caller.name} may not call {name}: it needs the role {needed or 'of nobody'}, and {caller.name} has "
            f"{roles}. Ask the operator of the server for it.",
            "ROLE_MISSING",
        )


def _names(context: Context) -> Iterator[str]:
    shown: Any = context.auth_context() or {}
    for property_name in ("x509_subject_alternative_name", "x509_common_name"):
        for value in shown.get(property_name, ()):
            yield value.decode("utf-8", "replace")
