"""The flags of `timerd serve`. None where one was not given: then the environment, the file or the default counts, so
the defaults shown here are words."""

from __future__ import annotations

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


Data = Annotated[Path | None, _flag("--data", "Folder of the data; made if absent.", "timerd-data")]
Listen = Annotated[str | None, _address("--listen", "Where to listen; port 0 takes a free one.", DEFAULT_SERVER)]
TlsCert = Annotated[Path | None, _flag("--tls-cert", "Certificate chain of the server (PEM).")]
TlsKey = Annotated[Path | None, _flag("--tls-key", "Its private key (PEM).")]
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
ClockStable = Annotated[
    str | None, _span("--clock-stable", "How long a wall clock that jumped must run steadily to be trusted.", "30s")
]
