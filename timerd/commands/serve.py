"""`timerd serve`: the server, in the foreground until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands.failures import Failure, WrongInput
from timerd.commands.output import Output
from timerd.commands.times import parse_span

if TYPE_CHECKING:
    from timerd.config import ServerConfig

_MIB = 1 << 20
# What an OK means at each level.
_DURABILITY = {"full": "fsync before OK", "normal": "no fsync before OK: a power cut may take the last commits"}


def serve(
    data: Annotated[Path, typer.Option(envvar="TIMERD_DATA", help="Folder of the data; made if absent.")] = Path(
        "timerd-data"
    ),
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", envvar="TIMERD_LISTEN", help="Where to listen; port 0 takes a free one.")
    ] = options.DEFAULT_SERVER,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain of the server (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its private key (PEM).")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen beyond loopback without TLS.")] = False,
    synchronous: Annotated[str, typer.Option(help="full: fsync before OK; normal: faster, not power-safe.")] = "full",
    memory_mb: Annotated[int, typer.Option(min=16, help="What loaded tasks may take, in MiB.")] = 1024,
    payload_kb: Annotated[int, typer.Option(min=1, max=1024, help="Largest payload, in KiB.")] = 64,
    max_streams: Annotated[int, typer.Option(min=1, help="Session and Work streams open at one time.")] = 1000,
    keep_history: Annotated[str, typer.Option(metavar="SPAN", help="How long ended tasks keep their outcome.")] = "24h",
    drain: Annotated[str, typer.Option(metavar="SPAN", help="How long a stop waits for deliveries in hand.")] = "10s",
    clock_stable: Annotated[
        str, typer.Option(metavar="SPAN", help="How long a wall clock that jumped must run steadily to be trusted.")
    ] = "30s",
    json: options.Json = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C."""
    from timerd.config import ServerConfig

    if synchronous not in _DURABILITY:
        raise WrongInput(f"--synchronous is {synchronous!r}: allowed are full (the default) and normal.")
    check_listen(listen, tls_cert, tls_key, insecure)
    config = ServerConfig(
        data=data,
        listen=listen,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        insecure=insecure,
        synchronous=synchronous,
        memory_budget_bytes=memory_mb * _MIB,
        payload_limit_bytes=payload_kb * 1024,
        max_streams=max_streams,
        history_retention_ms=_ms(keep_history),
        drain_ms=_ms(drain),
        clock_stable_ms=_ms(clock_stable),
    )
    asyncio.run(_run(config, Output(json)))


def _ms(span: str) -> int:
    return round(parse_span(span).total_seconds() * 1000)


def check_listen(listen: str, tls_cert: Path | None, tls_key: Path | None, insecure: bool) -> None:
    host, colon, port = listen.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 65536):
        raise WrongInput(f"{listen!r} is not an address to listen on: write HOST:PORT, for example 127.0.0.1:7400.")
    if (tls_cert is None) != (tls_key is None):
        raise WrongInput("TLS needs both --tls-cert and --tls-key.")
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise WrongInput(f"There is no file {path}: name an existing PEM file.")
    if tls_cert is None and not insecure and not _is_loopback(host):
        raise WrongInput(
            f"{listen} can be reached from other machines: give --tls-cert and --tls-key, "
            "or --insecure if the network is trusted, or listen on 127.0.0.1."
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


async def _run(config: ServerConfig, out: Output) -> None:
    from timerd.bootstrap import serve as run_server
    from timerd.model.errors import StartupError

    durability = _DURABILITY[config.synchronous]

    def ready(address: str) -> None:
        record = {"ready": address, "data": str(config.data), "durability": durability}
        out.line(record, f"timerd is ready on {address} (data: {config.data}, durability: {durability})")

    try:
        await run_server(config, ready)
    except StartupError as error:
        raise Failure(str(error)) from error
    out.line({"stopped": True, "data": str(config.data)}, f"timerd has stopped (data: {config.data})")


def register(app: typer.Typer) -> None:
    app.command()(serve)
