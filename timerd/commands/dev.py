"""`timerd dev`: a server with a page to look at, on this machine, with nothing to set up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands import serve_flags as flags
from timerd.commands.failures import check_platform
from timerd.commands.output import Form, Output
from timerd.commands.serve import run_until_stopped

if TYPE_CHECKING:
    from timerd.config import ServerConfig

HTTP = "127.0.0.1:7401"


def dev(
    data: Annotated[Path, typer.Option(help="Folder of the data; made if absent.")] = Path("timerd-data"),
    listen: flags.Listen = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Of the page, the HTTP API and the metrics.", show_default=HTTP),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run a server with its page until Ctrl-C.

    Where to look and what to try is printed. Tasks stay in the folder.
    """
    check_platform("timerd dev")
    from timerd.commands.settings import load

    given = {
        "store": ("", "sqlite"),
        "data": ("--data", data),
        "listen": ("--listen", listen),
        "http.listen": ("--http", http or (None if "TIMERD_HTTP_LISTEN" in os.environ else HTTP)),
        "http.page": ("", "act"),
        "log.level": ("", "warning"),
    }
    config = load(None, os.environ, given, ()).config
    run_until_stopped(config, Output(Form.of(json)), None if json else welcome)


def welcome(config: ServerConfig, address: str, http: str) -> str:
    """What is printed when it is ready."""
    from timerd.services.transport.listen import is_plain_http

    server = "" if address == "127.0.0.1:7400" else f" --server {address}"
    scheme = "http" if is_plain_http(config) else "https"
    rows = {
        "page": f"{scheme}://{http}/ui/",
        "gRPC": address,
        "metrics": f"{scheme}://{http}/metrics",
        "data": f"{config.data}{os.sep} (SQLite)",
    }
    shown = "\n".join(f"  {name:<8}{value}" for name, value in rows.items())
    return f"""timerd is ready. Ctrl-C stops it, and its tasks stay.

{shown}

Try it from another terminal:

  timerd work mails{server}
  timerd schedule mails hello --in 5s{server}
"""


def register(app: typer.Typer) -> None:
    app.command()(dev)
