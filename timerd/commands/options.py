"""Options that several commands share, each worded once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from timerd.commands.failures import WrongInput
from timerd.commands.output import Form

DEFAULT_SERVER = "127.0.0.1:7400"


def _connection(*names: str, **settings: Any) -> Any:  # noqa: ANN401 - as typer.Option
    return typer.Option(*names, rich_help_panel="Connection", **settings)


ServerOption = Annotated[
    str, _connection("--server", metavar="HOST:PORT", envvar="TIMERD_SERVER", help="Where timerd listens.")
]
Namespace = Annotated[
    str, _connection("--namespace", envvar="TIMERD_NAMESPACE", help="Tasks of one user of a shared server.")
]
TlsCa = Annotated[
    Path | None,
    _connection("--tls-ca", metavar="FILE", envvar="TIMERD_TLS_CA", help="Certificates to trust; turns TLS on."),
]
TlsCert = Annotated[
    Path | None,
    _connection("--tls-cert", metavar="FILE", envvar="TIMERD_TLS_CERT", help="Certificate of this client."),
]
TlsKey = Annotated[
    Path | None, _connection("--tls-key", metavar="FILE", envvar="TIMERD_TLS_KEY", help="Its private key.")
]
TokenFile = Annotated[
    Path | None,
    _connection(
        "--token-file", metavar="FILE", envvar="TIMERD_TOKEN_FILE", help="Holds this client's token; or TIMERD_TOKEN."
    ),
]
OnConflict = Annotated[
    str, typer.Option(help="When the key is in use: keep the old task, replace it, or reject this one.")
]
Timeout = Annotated[str, _connection("--timeout", metavar="SPAN", help="How long to wait for an answer.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings of the server in TOML; or name it in TIMERD_CONFIG."),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting (`timerd config show`); may be given again."),
]
Json = Annotated[bool, typer.Option("--json", help="JSON on stdout and nothing else.")]

OutputOption = Annotated[
    Form | None, typer.Option("--output", "-o", metavar="FORM", help="table; wide: all columns, ISO times; json; name.")
]

WatchOption = Annotated[
    str | None,
    typer.Option("--watch", metavar="[SECONDS]", help="Again and again until Ctrl-C; every 2 s if left open."),
]

Delay = Annotated[str | None, typer.Option("--in", metavar="SPAN", help="So long from now: 10s, 5m, 2h30m, 1d.")]
AtOption = Annotated[str | None, typer.Option("--at", metavar="TIME", help="At this ISO time: 2030-01-31T09:00:00Z.")]
KeyOption = Annotated[str | None, typer.Option("--key", help="The task that was scheduled with this key.")]
Queue = Annotated[str, typer.Option("--queue", help="Of this queue only.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Due at or after this: an ISO time, `now`, or a span from now."),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Due before this.")]
LabelsOption = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="K=V", help="With this label; may be given again, all count."),
]
States = Annotated[
    list[str] | None,
    typer.Option("--state", help="pending, in_flight, retrying (the default), acked, cancelled, dead, expired."),
]


def check_file(path: Path | None, what: str) -> None:
    """Of files that are read for each connection, which a pipe could be once."""
    if path is None or path.is_file():
        return
    if path.exists():
        raise WrongInput(f"{path} is no regular file, and it is read more than once: name {what}.")
    raise WrongInput(f"There is no file {path}: name {what}.")


def check_named(*names: str | None) -> None:
    """An empty one comes from a variable that is not set."""
    if "" in names:
        raise WrongInput("An ID or --key is empty: give the id that `schedule` answered, or the key of a task.")


def parse_labels(pairs: Sequence[str] | None) -> dict[str, str]:
    labels = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise WrongInput(f"{pair!r} is not a label: write --label name=value.")
        labels[name] = value
    return labels
