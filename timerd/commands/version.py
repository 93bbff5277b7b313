"""`timerd version`: which release this is."""

from __future__ import annotations

import platform

import typer

from timerd.commands import options
from timerd.commands.call import form_of_listing
from timerd.commands.output import Output


def version(json: options.Json = False, output: options.OutputOption = None) -> None:
    """Print the version of this program."""
    from timerd import __version__

    record = {"version": __version__, "python": platform.python_version()}
    Output(form_of_listing(json, output)).one(record, f"timerd {__version__} (Python {record['python']})")


def register(app: typer.Typer) -> None:
    app.command()(version)
