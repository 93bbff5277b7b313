"""`timerd health`: one health check, for a supervisor of containers that has no gRPC client of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands.call import CommandCall, Endpoint, showing
from timerd.commands.failures import CommandFailure, Unreachable

if TYPE_CHECKING:
    import grpc.aio

Service = Annotated[
    str, typer.Option("--service", metavar="NAME", help="Ask for this part of the server; without it, for the whole.")
]
TlsName = Annotated[
    str,
    typer.Option(
        "--tls-name", metavar="NAME", envvar="TIMERD_TLS_PEER_NAME", help="In its certificate, where that is another."
    ),
]


@showing
async def health(call: CommandCall, service: Service = "", tls_name: TlsName = "") -> None:
    """Ask a server whether it serves.

    Exit code 0: yes; 1: no; 3: nobody answers.
    """
    status = await asked(call.endpoint, service, tls_name)
    if status != "SERVING":
        raise CommandFailure(
            f"timerd at {call.endpoint.server} says {status} for {service or 'the whole'}: it is starting, going away, "
            "or something that it needs is not there; its log says what."
        )
    call.out.one({"status": status, "service": service}, status)


async def asked(endpoint: Endpoint, service: str, tls_name: str) -> str:
    from timerd.sdk.transport import Connection

    channel = Connection(replace(endpoint.connection(), tls_server_name=tls_name)).open_channel()
    async with channel:
        return await _check(channel, endpoint, service)


async def _check(channel: grpc.aio.Channel, endpoint: Endpoint, service: str) -> str:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub = health_pb2_grpc.HealthStub(channel)
    try:
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=endpoint.timeout_s)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.NOT_FOUND:
            raise CommandFailure(
                f"timerd at {endpoint.server} has no part named {service!r}: ask for api, scheduler, store or live."
            ) from error
        what = f"{error.code().name}: {error.details()}"
        raise Unreachable(
            f"Nothing answers a health check at {endpoint.server}: start a server with `timerd serve`, or name another "
            f"one with --server ({what})."
        ) from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def register(app: typer.Typer) -> None:
    app.command()(health)
