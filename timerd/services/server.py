"""The gRPC server: TimerService, WorkService, health and reflection on one port; its limits, TLS and graceful end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from timerd.config import ServerConfig
from timerd.ports import TokenReader
from timerd.services.api import TimerApi
from timerd.services.background import begin
from timerd.services.health.health_board import API, LIVE, PARTS, READY, HealthBoard
from timerd.services.transport.access import Access
from timerd.services.transport.audit import Audit
from timerd.services.transport.audit_log import AuditLog
from timerd.services.transport.door_choice import make_door
from timerd.services.transport.front_door import ServedCalls
from timerd.services.transport.grpcio_door import grpcio_server
from timerd.services.transport.last_line import LastLine
from timerd.services.transport.listen import Address, check_listen
from timerd.services.transport.local_calls import LocalCalls
from timerd.services.transport.passed_on import PassedOn
from timerd.services.transport.principals import Principals
from timerd.services.transport.streams import StreamLimit, Unfinished
from timerd.services.work.work_service import work_handler
from timerd.v1 import (
    cycle_service_pb2,
    overview_service_pb2,
    regulation_service_pb2,
    schedule_service_pb2,
    timer_service_pb2,
    work_service_pb2,
)
from timerd.v1.work_service_pb2_grpc import WorkServiceServicer

log = logging.getLogger(__name__)
TIMER_SERVICE = timer_service_pb2.DESCRIPTOR.services_by_name["TimerService"].full_name
WORK_SERVICE = work_service_pb2.DESCRIPTOR.services_by_name["WorkService"].full_name
OVERVIEW_SERVICE = overview_service_pb2.DESCRIPTOR.services_by_name["OverviewService"].full_name
SCHEDULE_SERVICE = schedule_service_pb2.DESCRIPTOR.services_by_name["ScheduleService"].full_name
CYCLE_SERVICE = cycle_service_pb2.DESCRIPTOR.services_by_name["CycleService"].full_name
REGULATION_SERVICE = regulation_service_pb2.DESCRIPTOR.services_by_name["RegulationService"].full_name
HEALTH_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"
# What can be asked for -> the part of the board that answers. Callers and workers need all of it.
SERVICES = (TIMER_SERVICE, WORK_SERVICE, SCHEDULE_SERVICE, CYCLE_SERVICE, OVERVIEW_SERVICE, REGULATION_SERVICE)
CHECKED = dict.fromkeys((READY, *SERVICES), READY) | {part: part for part in (LIVE, *PARTS)}
_WIND_UP_S = 2.0


class ApiServer:
    """Listens from `start` to `stop`."""

    def __init__(
        self,
        config: ServerConfig,
        api: TimerApi,
        work: WorkServiceServicer,
        inside: Sequence[grpc.GenericRpcHandler] = (),
        tokens: TokenReader | None = None,
    ) -> None:
        """`inside`: services for other instances of the cluster and for KEDA; they are in no reflection. `tokens`:
        reads those of an identity provider."""
        self._config = config
        self.api = api
        self.board = HealthBoard()
        self._health = health.aio.HealthServicer()
        self._shown: dict[str, bool] = {}
        self._showing: asyncio.Task[None] | None = None
        self._is_stale = False
        self._streams = StreamLimit(config.max_streams)
        self._unfinished = Unfinished()
        interceptors: list[grpc.aio.ServerInterceptor] = [self._unfinished, LastLine(), self._streams]
        self._audit: Audit | None = None
        if api.audited is not None:
            file = config.auth.audit_file
            self._audit = Audit(api.audited, AuditLog(file) if file is not None else None)
            interceptors.insert(2, self._audit)
        self._principals: Principals | None = None
        if config.auth.principals_file is not None:
            self._principals = Principals(config.auth.principals_file, tokens)
            interceptors.insert(2, Access(self._principals))
        handlers = (api.handler(), work_handler(work), *inside)
        # The same services for the HTTP port.
        self.local = LocalCalls(interceptors, handlers)
        passed_on = PassedOn()
        server = grpcio_server(config, [passed_on, *interceptors])
        server.add_generic_rpc_handlers(handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        _add_reflection(server)
        calls = LocalCalls(interceptors, handlers)
        # Where roles are asked for, each call passes the interceptor that does.
        together = api.together() if self._principals is None else {}
        methods = calls.unary_methods(SERVICES)
        self.door = make_door(ServedCalls(config, server, passed_on, calls, methods, together))
        api.front_door = self.door.name

    async def start(self) -> Address:
        """Bound and answering; NOT_SERVING until `set_serving`. Raises StartupError."""
        await self.set_serving(serving=False)
        self.board.on_change(self._board_changed)
        address = check_listen(self._config)
        if self._audit is not None:
            self._audit.begin()
        bound = await self.door.open(address)
        self.local.open()
        return bound

    async def set_serving(self, *, serving: bool) -> None:
        """Health checks see it when this returns."""
        self.board.put(API, "away", "" if serving else "the server is starting or going away")
        await self._show()

    def _board_changed(self) -> None:
        """Whatever changes in one turn of the loop is shown together."""
        self._is_stale = True
        if self._showing is None or self._showing.done():
            self._showing = begin(self._show(), "health")

    async def _show(self) -> None:
        status = health_pb2.HealthCheckResponse
        self._is_stale = True
        while self._is_stale:
            self._is_stale = False
            for name, part in CHECKED.items():
                is_serving = self.board.is_serving(part)
                if self._shown.get(name) is not is_serving:
                    self._shown[name] = is_serving
                    await self._health.set(name, status.SERVING if is_serving else status.NOT_SERVING)

    async def stop(self, grace_ms: int) -> None:
        """Takes nothing new, lets what is in hand finish within the grace, then hangs up."""
        await self.set_serving(serving=False)
        self.api.drain()
        self.local.close()
        await self.door.close(grace_ms / 1000)
        await self.api.finished(grace_ms)
        await self._unfinished.wound_up(_WIND_UP_S)

    def refresh(self) -> None:
        """Takes the principals up at once where their file has changed; the next connection does so with TLS files."""
        if self._principals is not None:
            self._principals.refresh()
        log.info("Files of certificates and principals are taken up where they changed; other settings need a restart.")

    async def kill(self) -> None:
        """Hangs up, as the end of the process would."""
        self.local.close()
        await self.door.close(0)


def _add_reflection(server: grpc.aio.Server) -> None:
    """Under both names of the protocol: v1 has the same messages as v1alpha, and newer tools ask for it first."""
    names = (*SERVICES, HEALTH_SERVICE, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    servicer = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    methods = {"ServerReflectionInfo": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(REFLECTION_V1, methods),))
