"""The flags of `timerd serve`. None where one was not given: then the environment, the file or the default counts, so
the defaults shown here are words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from timerd.commands.options import DEFAULT_SERVER


def _flag(name: str, text: str, default: str = "", **more: Any) -> Any:  # noqa: ANN401 - as typer.Option
    return typer.Option(name, help=text, show_default=default or False, **more)


def _span(name: str, text: str, default: str) -> Any:  # noqa: ANN401 - as typer.Option
    return _flag(name, text, default, metavar="SPAN")


def _address(name: str, text: str, default: str = "") -> Any:  # noqa: ANN401 - as typer.Option
    return _flag(name, text, default, metavar="HOST:PORT")


StoreFlag = Annotated[str | None, _flag("--store", "sqlite: one process; cassandra: one instance of many.", "sqlite")]
Cassandra = Annotated[
    str | None, _flag("--cassandra", "Some of its nodes.", "127.0.0.1", metavar="HOST[:PORT][,HOST...]")
]
Keyspace = Annotated[str | None, _flag("--keyspace", "Of timerd's tables in Cassandra.", "timerd")]
Datacenter = Annotated[str | None, _flag("--datacenter", "Whose nodes are spoken to.", "datacenter1")]
Replication = Annotated[str | None, _flag("--replication", "Replicas: 3, or east:3,west:3. For a new keyspace.", "3")]
Redis = Annotated[str | None, _flag("--redis", "A second way for hints between instances.", metavar="URL")]
NameFlag = Annotated[
    str | None, _flag("--name", "Of this instance: no other one may have it.", "from the machine's name")
]
Advertise = Annotated[str | None, _address("--advertise", "Where other instances reach this one.", "as --listen")]
ShardsFlag = Annotated[
    int | None, _flag("--shards", "Of each bucket, recorded at the first start.", "4", min=1, max=1024)
]
DataFlag = Annotated[Path | None, _flag("--data", "Folder of the data; made if absent.", "timerd-data")]
Listen = Annotated[str | None, _address("--listen", "Where to listen; port 0 takes a free one.", DEFAULT_SERVER)]
TlsCertFlag = Annotated[Path | None, _flag("--tls-cert", "Certificate chain of the server (PEM).")]
TlsKeyFlag = Annotated[Path | None, _flag("--tls-key", "Its private key (PEM).")]
Http = Annotated[str | None, _address("--http", "Metrics, health and version for those who watch.")]
Insecure = Annotated[bool | None, _flag("--insecure", "Listen beyond loopback without TLS.")]
Synchronous = Annotated[
    str | None, _flag("--synchronous", "full: fsync before OK; normal: faster, not power-safe.", "full")
]
MemoryMb = Annotated[int | None, _flag("--memory-mb", "What loaded tasks may take, in MiB.", "1024", min=16)]
PayloadKb = Annotated[int | None, _flag("--payload-kb", "Largest payload, in KiB.", "64", min=1, max=1024)]
MaxStreams = Annotated[int | None, _flag("--max-streams", "Session and Work streams open at one time.", "1000", min=1)]
KeepHistory = Annotated[str | None, _span("--keep-history", "How long ended tasks keep their outcome.", "24h")]
Drain = Annotated[str | None, _span("--drain", "How long a stop waits for deliveries in hand.", "10s")]
CanaryFlag = Annotated[
    str | None, _span("--canary", "How often it tries itself with a task.", "5s with --http, else never")
]
ClockStable = Annotated[
    str | None, _span("--clock-stable", "How long a wall clock that jumped must run steadily to be trusted.", "30s")
]

# Parameter -> the setting that it is, and the flag.
NAMES = {
    "store": ("store", "--store"),
    "cassandra": ("cassandra.nodes", "--cassandra"),
    "keyspace": ("cassandra.keyspace", "--keyspace"),
    "datacenter": ("cassandra.datacenter", "--datacenter"),
    "redis": ("redis.url", "--redis"),
    "name": ("name", "--name"),
    "advertise": ("advertise", "--advertise"),
    "shards": ("shards", "--shards"),
    "data": ("data", "--data"),
    "listen": ("listen", "--listen"),
    "tls_cert": ("tls.certificate_file", "--tls-cert"),
    "tls_key": ("tls.key_file", "--tls-key"),
    "http": ("http.listen", "--http"),
    "insecure": ("insecure", "--insecure"),
    "synchronous": ("synchronous", "--synchronous"),
    "max_streams": ("max_streams", "--max-streams"),
    "keep_history": ("history_retention", "--keep-history"),
    "drain": ("drain", "--drain"),
    "clock_stable": ("clock_stable", "--clock-stable"),
    "canary": ("canary", "--canary"),
}


def given(parameters: Mapping[str, object]) -> dict[str, tuple[str, object]]:
    """Setting -> (flag, value), of the command's parameters."""
    return {setting: (flag, parameters[name]) for name, (setting, flag) in NAMES.items()}
