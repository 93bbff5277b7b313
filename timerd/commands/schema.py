"""`timerd schema apply`: the tables in Cassandra. An instance that serves never makes them by itself."""

from __future__ import annotations

from typing import Annotated

import typer

from timerd.commands import options
from timerd.commands.failures import Failure
from timerd.commands.output import Output

_group = typer.Typer(no_args_is_help=True, help="The tables of timerd in Cassandra or ScyllaDB.")


@_group.callback()
def schema() -> None:
    """The tables of timerd in Cassandra or ScyllaDB."""


@_group.command("apply")
def apply(
    cassandra: Annotated[
        str, typer.Option(metavar="ADDRESS[,ADDRESS...]", envvar="TIMERD_CASSANDRA", help="Some of the nodes.")
    ] = "127.0.0.1",
    keyspace: Annotated[str, typer.Option(envvar="TIMERD_KEYSPACE", help="Made if absent.")] = "timerd",
    datacenter: Annotated[
        str, typer.Option(envvar="TIMERD_DATACENTER", help="The data centre of these nodes.")
    ] = "datacenter1",
    replication: Annotated[
        str, typer.Option(envvar="TIMERD_REPLICATION", help="Replicas: 3, or east:3,west:3. For a new keyspace.")
    ] = "3",
    user: Annotated[str, typer.Option(envvar="TIMERD_CASSANDRA_USER", help="Where nodes ask for one.")] = "",
    password: Annotated[
        str, typer.Option(envvar="TIMERD_CASSANDRA_PASSWORD", help="Its password; better by the variable.")
    ] = "",
    json: options.Json = False,
) -> None:
    """Make the keyspace and its tables, or bring them to this version. May be repeated."""
    from timerd.bootstrap import apply_schema
    from timerd.model.errors import StartupError

    try:
        version = apply_schema(cassandra, keyspace, datacenter, replication, user, password)
    except StartupError as error:
        raise Failure(str(error)) from error
    Output(json).one(
        {"keyspace": keyspace, "schema_version": version}, f"The keyspace {keyspace} has schema version {version}."
    )


def register(app: typer.Typer) -> None:
    app.add_typer(_group, name="schema")
