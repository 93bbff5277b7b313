"""`timerd zones`: the data of time zones that schedules go by."""

from __future__ import annotations

from typing import Annotated

import typer

from timerd.commands.call import CommandCall, online

_HELP = "The data of time zones that schedules go by."


async def sweep(
    call: CommandCall,
    zones: Annotated[
        list[str] | None, typer.Argument(metavar="[ZONE]...", help="Those that the last release changed if left out.")
    ] = None,
) -> None:
    """Bring the tzdata of this server into force.

    The schedules of some zones are armed anew by it.

    It begins a sweep that is held, repeats one, or takes a wrong release back."""
    client = await call.connect()
    given = await client.sweep_zones(*(zones or ()))
    named = ", ".join(given.zones)
    told = f"schedules of {named} are armed anew." if named else "there is nothing to arm anew."
    call.out.one({"tzdata": given.tzdata, "zones": list(given.zones)}, f"tzdata {given.tzdata} is in force: {told}")


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=_HELP, no_args_is_help=True)
    group.command()(online(sweep))
    app.add_typer(group, name="zones")
