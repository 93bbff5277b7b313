"""`timerd token`: a new token for a caller, and the line that makes it known to the server."""

from __future__ import annotations

from typing import Annotated

import typer

from timerd.commands import options
from timerd.commands.failures import WrongInput
from timerd.commands.output import Form, Output

_TOKEN_BYTES = 32


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who will show it.")],
    roles: Annotated[
        str,
        typer.Option(
            "--roles",
            metavar="ROLE[,ROLE]",
            help="schedule, work, view, inspect, operate; schedule@NAMESPACE, work@NAMESPACE/QUEUE.",
        ),
    ] = "schedule,work",
    json: options.Json = False,
) -> None:
    """Make a token for a caller; it is shown once.

    The server's file of principals gets the line with its hash.
    """
    import secrets
    from hashlib import sha256

    from timerd.services.transport.roles import FORM, parse_roles

    try:
        parse_roles(roles)
    except ValueError as wrong:
        raise WrongInput(f"--roles {roles}: {wrong} is no role: {FORM}. Commas stand between roles.") from wrong
    if not name or name.split() != [name] or "#" in name:
        raise WrongInput(f"{name!r} is no name for a caller: write one word without #.")
    made = secrets.token_urlsafe(_TOKEN_BYTES)
    line = f"{name} {roles} sha256:{sha256(made.encode()).hexdigest()}"
    sentence = f"token (keep it secret):  {made}\nline for the server:     {line}"
    Output(Form.of(json)).one({"name": name, "token": made, "principal": line}, sentence)


def register(app: typer.Typer) -> None:
    app.command()(token)
