"""`timerd serve`: the server, in the foreground until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import typer

from timerd.commands import options
from timerd.commands import serve_flags as flags
from timerd.commands.failures import CommandFailure, WrongInput, check_platform
from timerd.commands.output import Form, Output

if TYPE_CHECKING:
    from timerd.commands.output import Form, OutputRecord
    from timerd.config import ServerConfig

# What an OK means at each level.
_ANYWHERE = ("0.0.0.0", "::")
# (configuration, where it listens, where for HTTP) -> what is printed.
Welcome = Callable[["ServerConfig", str, str], str]
_REDIS = ("redis://", "rediss://", "unix://")
_QUORUM = "a quorum of replicas before OK"
_DURABILITY = {"full": "fsync before OK", "normal": "no fsync before OK: a power cut may take the last commits"}


def serve(
    config: options.ConfigFile = None,
    store: flags.StoreFlag = None,
    cassandra: flags.Cassandra = None,
    keyspace: flags.Keyspace = None,
    datacenter: flags.Datacenter = None,
    redis: flags.Redis = None,
    name: flags.NameFlag = None,
    advertise: flags.Advertise = None,
    shards: flags.ShardsFlag = None,
    data: flags.DataFlag = None,
    listen: flags.Listen = None,
    tls_cert: flags.TlsCertFlag = None,
    tls_key: flags.TlsKeyFlag = None,
    http: flags.Http = None,
    insecure: flags.Insecure = None,
    synchronous: flags.Synchronous = None,
    memory_mb: flags.MemoryMb = None,
    payload_kb: flags.PayloadKb = None,
    max_streams: flags.MaxStreams = None,
    keep_history: flags.KeepHistory = None,
    drain: flags.Drain = None,
    clock_stable: flags.ClockStable = None,
    canary: flags.CanaryFlag = None,
    settings: options.SettingsOption = None,
    json: options.Json = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C.

    Flags win over TIMERD_... variables, those over the --config file.
    """
    parameters = locals()
    from timerd.commands.settings import load

    check_platform("timerd serve")
    given = flags.given(parameters) | {
        "memory_budget": ("--memory-mb", memory_mb and f"{memory_mb}MiB"),
        "payload_limit": ("--payload-kb", payload_kb and f"{payload_kb}KiB"),
    }
    loaded = load(config, os.environ, given, settings or ()).config
    run_until_stopped(loaded, Output(Form.of(json or loaded.log.format == "json")))


def run_until_stopped(config: ServerConfig, out: Output, welcome: Welcome | None = None) -> None:
    """The server in the foreground. `welcome` makes what is printed when it is ready, where that is not a line."""
    from timerd.observability.logs import set_up

    check_listen(config)
    check_store(config)
    check_outbox(config)
    set_up(config.log)
    signal.signal(signal.SIGTERM, _end_at_once)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _look_later)
    asyncio.run(_run(config, out, welcome))


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
        options.check_file(path, "an existing PEM file")
    if certificate is None and not config.insecure and not _is_loopback(host):
        raise WrongInput(
            f"{config.listen} can be reached from other machines: give --tls-cert and --tls-key, "
            "or --insecure if the network is trusted, or listen on 127.0.0.1."
        )


def check_store(config: ServerConfig) -> None:
    """What the settings of one instance say together."""
    if config.store == "sqlite":
        if config.shards > 1:
            raise WrongInput(
                f"--shards is {config.shards}, and SQLite has one: leave it out, or give --store cassandra."
            )
        if config.redis.url:
            raise WrongInput(
                "--redis is a way between instances, and on SQLite there is one: leave it out, or give --store "
                "cassandra."
            )
        return
    redis = config.redis.url.get_secret_value()
    if redis and not redis.startswith(_REDIS):
        raise WrongInput(f"The URL of Redis begins with {' or '.join(_REDIS)}: write redis://HOST:PORT, for example.")
    address = config.advertise or config.listen
    host, colon, port = address.rpartition(":")
    if not (host and colon and port.isdigit()) or host.strip("[]") in _ANYWHERE:
        raise WrongInput(
            f"Other instances cannot reach this one at {address}: give --advertise HOST:PORT with an address that they "
            "can call."
        )
    if config.lease_ttl_ms < 3 * config.heartbeat_ms:
        raise WrongInput(
            f"lease_ttl is {config.lease_ttl_ms} ms and heartbeat {config.heartbeat_ms} ms: an instance is heard three "
            "times within its lease at least, so make lease_ttl three times heartbeat or more."
        )


def check_outbox(config: ServerConfig) -> None:
    """Nothing is connected to yet."""
    database = config.outbox.relay_database.get_secret_value()
    if not database:
        return
    from timerd.outbox.opening import open_outbox
    from timerd.outbox.ports import DatabaseWrong

    try:
        open_outbox(database)
    except DatabaseWrong as wrong:
        raise WrongInput(f"outbox.relay_database: {wrong}") from wrong


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _end_at_once(*_: object) -> NoReturn:
    """Until it serves. As PID 1 of a container it would not even end: there the kernel has no default for SIGTERM."""
    raise SystemExit(128 + signal.SIGTERM)


def _look_later(*_: object) -> None:
    """What it asks for is done at the start anyway."""


async def _run(config: ServerConfig, out: Output, welcome: Welcome | None) -> None:
    from timerd.bootstrap import serve as run_server
    from timerd.commands.relay_process import RelayProcess
    from timerd.model.errors import StartupError, StoreUnavailable, StoreUnknown

    where, durability = _where(config)
    relays: list[RelayProcess] = []

    def ready(address: str, http: str) -> None:
        record = {"ready": address, **where, "durability": durability} | ({"http": http} if http else {})
        seen = f", metrics: {http}" if http else ""
        line = f"timerd is ready on {address} ({_shown(where)}, durability: {durability}{seen})"
        _say(out, record, welcome(config, address, http) if welcome is not None else line)
        if config.outbox.relay_database.get_secret_value():
            relays.append(RelayProcess(config.outbox, address))
            relays[0].start()

    async def end_relays() -> None:
        for relay in relays:
            await relay.stop()

    try:
        await run_server(config, ready, end_relays)
    except (StartupError, StoreUnavailable, StoreUnknown) as error:
        raise CommandFailure(str(error)) from error
    finally:
        await end_relays()
    _say(out, {"stopped": True, **where}, f"timerd has stopped ({_shown(where)})")


def _say(out: Output, record: OutputRecord, sentence: str) -> None:
    """Prints, where somebody reads it: a server goes on when its terminal, or the pipe behind it, has gone."""
    try:
        out.line(record, sentence)
    except OSError:
        # What is printed later, and at the end of the process, goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _where(config: ServerConfig) -> tuple[dict[str, str], str]:
    """Where the tasks are, and what an OK means."""
    if config.store == "sqlite":
        return {"data": str(config.data)}, _DURABILITY[config.synchronous]
    nodes = ",".join(config.cassandra.nodes)
    return {"store": "cassandra", "keyspace": config.cassandra.keyspace, "nodes": nodes}, _QUORUM


def _shown(where: dict[str, str]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in where.items())


def register(app: typer.Typer) -> None:
    app.command()(serve)
