"""`timerd config`: the settings in force and where each comes from; whether a server could start with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timerd.commands import options
from timerd.commands.call import form_of_listing
from timerd.commands.failures import WrongInput
from timerd.commands.output import Output
from timerd.commands.table import Column, Kind

if TYPE_CHECKING:
    from timerd.config import ServerConfig

_COLUMNS = (
    Column("setting", Kind.ID),
    Column("value", Kind.NAME),
    Column("from", Kind.NAME),
    Column("variable", Kind.ID, is_spare=True),
)
_group = typer.Typer(no_args_is_help=True)


@_group.callback()
def config() -> None:
    """Settings of the server: file, TIMERD_... variables, flags."""


@_group.command("show")
def show(
    config: options.ConfigFile = None,
    settings: options.SettingsOption = None,
    json: options.Json = False,
    output: options.OutputOption = None,
) -> None:
    """Show every setting, its value and where it comes from.

    Secrets are not shown.
    """
    from timerd.commands.setting import value_of
    from timerd.commands.settings import known, load

    loaded = load(config, os.environ, pairs=settings or ())
    records = [
        {
            "setting": each.name,
            "value": each.show(value_of(loaded.config, each)),
            "from": loaded.origins[each.name],
            "variable": each.variable,
        }
        for each in known()
    ]
    Output(form_of_listing(json, output)).many(records, _COLUMNS, "There are no settings.")


@_group.command("check")
def check(
    config: options.ConfigFile = None,
    settings: options.SettingsOption = None,
    json: options.Json = False,
    output: options.OutputOption = None,
) -> None:
    """Check whether `timerd serve` would accept the settings.

    Nothing is started or written. Exit code 2 if it would not.
    """
    from timerd.commands.settings import load

    out = Output(form_of_listing(json, output))
    try:
        loaded = load(config, os.environ, pairs=settings or ())
        _check_whole(loaded.config)
    except WrongInput as error:
        if out.as_json:
            out.one({"ok": False, "problems": getattr(error, "problems", [str(error)])}, "")
        raise
    given = sum(origin != "default" for origin in loaded.origins.values())
    out.one({"ok": True, "given": given}, f"The configuration is good ({given} settings are given).")


def _check_whole(config: ServerConfig) -> None:
    """What no single setting shows."""
    from timerd.commands.serve import check_listen, check_outbox, check_store
    from timerd.model.errors import StartupError
    from timerd.services.calls.quotas_file import read_quotas
    from timerd.services.streams.targets_file import read_password, read_streams
    from timerd.services.transport import listen
    from timerd.services.transport.principals import read_principals
    from timerd.services.transport.tls import read_tls
    from timerd.services.webhooks.secret_file import read_secrets
    from timerd.services.webhooks.targets_file import read_targets

    check_listen(config)
    check_store(config)
    check_outbox(config)
    try:
        listen.check_listen(config)
        listen.check_http(config)
        if config.tls.certificate_file is not None:
            read_tls(config.tls)
        if config.auth.principals_file is not None:
            read_principals(config.auth.principals_file)
        if config.quotas_file is not None:
            read_quotas(config.quotas_file)
        for target in read_targets(config.webhooks):
            read_secrets(Path(target.secret_file))
        for stream in read_streams(config.streams):
            if stream.password_file:
                read_password(stream.password_file)
    except StartupError as error:
        raise WrongInput(str(error)) from error


def register(app: typer.Typer) -> None:
    app.add_typer(_group, name="config")
