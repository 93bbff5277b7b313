"""`timerd schema apply`: the tables in Cassandra. An instance that serves never makes them by itself."""

from __future__ import annotations

import os

import typer

from timerd.commands import options
from timerd.commands import serve_flags as flags
from timerd.commands.failures import CommandFailure, check_platform
from timerd.commands.output import Form, Output

_group = typer.Typer(no_args_is_help=True, help="The tables of timerd in Cassandra or ScyllaDB.")


@_group.callback()
def schema() -> None:
    """The tables of timerd in Cassandra or ScyllaDB."""


@_group.command("apply")
def apply(
    config: options.ConfigFile = None,
    cassandra: flags.Cassandra = None,
    keyspace: flags.Keyspace = None,
    datacenter: flags.Datacenter = None,
    replication: flags.Replication = None,
    settings: options.SettingsOption = None,
    json: options.Json = False,
) -> None:
    """Make the keyspace and its tables, or bring them up to date.

    May be repeated.
    """
    check_platform("timerd schema apply")
    from timerd.bootstrap import apply_schema
    from timerd.commands.settings import load
    from timerd.model.errors import StartupError

    given = {
        "cassandra.nodes": ("--cassandra", cassandra),
        "cassandra.keyspace": ("--keyspace", keyspace),
        "cassandra.datacenter": ("--datacenter", datacenter),
        "cassandra.replication": ("--replication", replication),
    }
    store = load(config, os.environ, given, settings or ()).config.cassandra
    try:
        version = apply_schema(store)
    except StartupError as error:
        raise CommandFailure(str(error)) from error
    Output(Form.of(json)).one(
        {"keyspace": store.keyspace, "schema_version": version},
        f"The keyspace {store.keyspace} has schema version {version}.",
    )


def register(app: typer.Typer) -> None:
    app.add_typer(_group, name="schema")
