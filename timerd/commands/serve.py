"""`timerd serve`: the server, in the foreground until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import os
from typing import TYPE_CHECKING

import typer

from timerd.commands import options
from timerd.commands import serve_flags as flags
from timerd.commands.failures import Failure, WrongInput
from timerd.commands.output import Output

if TYPE_CHECKING:
    from timerd.config import ServerConfig

# What an OK means at each level.
_DURABILITY = {"full": "fsync before OK", "normal": "no fsync before OK: a power cut may take the last commits"}


def serve(
    config: options.ConfigFile = None,
    data: flags.Data = None,
    listen: flags.Listen = None,
    tls_cert: flags.TlsCert = None,
    tls_key: flags.TlsKey = None,
    http: flags.Http = None,
    insecure: flags.Insecure = None,
    synchronous: flags.Synchronous = None,
    memory_mb: flags.MemoryMb = None,
    payload_kb: flags.PayloadKb = None,
    max_streams: flags.MaxStreams = None,
    keep_history: flags.KeepHistory = None,
    drain: flags.Drain = None,
    clock_stable: flags.ClockStable = None,
    settings: options.Settings = None,
    json: options.Json = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C. Flags win over TIMERD_... variables, those over the --config file."""
    from timerd.commands.settings import load
    from timerd.observability.logs import set_up

    given = {
        "data": ("--data", data),
        "listen": ("--listen", listen),
        "tls.certificate_file": ("--tls-cert", tls_cert),
        "tls.key_file": ("--tls-key", tls_key),
        "http.listen": ("--http", http),
        "insecure": ("--insecure", insecure),
        "synchronous": ("--synchronous", synchronous),
        "memory_budget": ("--memory-mb", memory_mb and f"{memory_mb}MiB"),
        "payload_limit": ("--payload-kb", payload_kb and f"{payload_kb}KiB"),
        "max_streams": ("--max-streams", max_streams),
        "history_retention": ("--keep-history", keep_history),
        "drain": ("--drain", drain),
        "clock_stable": ("--clock-stable", clock_stable),
    }
    loaded = load(config, os.environ, given, settings or ()).config
    check_listen(loaded)
    set_up(loaded.log)
    asyncio.run(_run(loaded, Output(json or loaded.log.format == "json")))


def check_listen(config: ServerConfig) -> None:
    host, colon, port = config.listen.rpartition(":")
    if not (host and colon and port.isdigit() and int(port) < 65536):
        raise WrongInput(
            f"{config.listen!r} is not an address to listen on: write HOST:PORT, for example 127.0.0.1:7400."
        )
    certificate, key = config.tls.certificate_file, config.tls.key_file
    if (certificate is None) != (key is None):
        raise WrongInput("TLS needs both --tls-cert and --tls-key (tls.certificate_file and tls.key_file).")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise WrongInput(f"There is no file {path}: name an existing PEM file.")
    if certificate is None and not config.insecure and not _is_loopback(host):
        raise WrongInput(
            f"{config.listen} can be reached from other machines: give --tls-cert and --tls-key, "
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

    def ready(address: str, http: str) -> None:
        record = {"ready": address, "data": str(config.data), "durability": durability}
        seen = f", metrics: {http}" if http else ""
        out.line(
            record | ({"http": http} if http else {}),
            f"timerd is ready on {address} (data: {config.data}, durability: {durability}{seen})",
        )

    try:
        await run_server(config, ready)
    except StartupError as error:
        raise Failure(str(error)) from error
    out.line({"stopped": True, "data": str(config.data)}, f"timerd has stopped (data: {config.data})")


def register(app: typer.Typer) -> None:
    app.command()(serve)
