"""`timerd celery run`: hands to Celery's broker what is due, and knows nothing of the application but its broker."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.call import CommandCall, online
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.plain_log import log_plainly
from timerd.commands.table import Column, Kind

if TYPE_CHECKING:
    from kombu import Connection

    from timerd.contrib.celery import Imported

_HELP = "Celery tasks for later, and its beat schedule."
_MISSING = "This command needs Celery, which is not installed: pip install 'timerd[celery]'."
_IMPORTED = (
    Column("entry", Kind.NAME),
    Column("schedule", Kind.NAME),
    Column("outcome", Kind.WORD),
    Column("problem", Kind.TEXT, is_wide=True),
)


async def run(
    call: CommandCall,
    broker: Annotated[
        str, typer.Option("--broker", metavar="URL", envvar="CELERY_BROKER_URL", help="The broker of the application.")
    ],
    queue: Annotated[str, typer.Option("--queue", help="The queue in which the messages wait.")] = "celery",
    concurrency: Annotated[int, typer.Option(min=1, max=100, help="Connections to the broker.")] = 4,
    transport_options: Annotated[
        str, typer.Option("--transport-options", metavar="JSON", help="The application's `broker_transport_options`.")
    ] = "{}",
) -> None:
    """Publish Celery tasks that are due until Ctrl-C.

    The URL stands best in CELERY_BROKER_URL, for flags are seen by everybody on the machine. Several may run.
    """
    from timerd.sdk.working import run_until_signalled
    from timerd.worker import Worker

    connection = _connection(broker, _options(transport_options))
    from timerd.contrib.celery import Publisher

    await call.connect()
    call.bar.stop()
    log_plainly()
    worker = Worker(call.endpoint.connection())
    Publisher(connection, queue=queue, concurrency=concurrency).attach(worker)
    where = {"queue": queue, "server": call.endpoint.server, "broker": connection.as_uri()}
    call.out.line({"publishing": where}, f"publishing {queue} of {where['server']} to {where['broker']}")
    exit_code = await run_until_signalled(worker)
    if exit_code:
        raise typer.Exit(exit_code)


async def import_beat(
    call: CommandCall,
    application: Annotated[str, typer.Argument(metavar="APP", help="As `celery -A` takes it, for example shop.")],
    queue: Annotated[str, typer.Option("--queue", help="The queue in which the messages wait.")] = "celery",
    delete_gone: Annotated[
        bool, typer.Option("--delete-gone", help="Delete schedules of entries that are there no more.")
    ] = False,
) -> None:
    """Make schedules of Celery's beat schedule.

    May be repeated, for example at each deployment. The exit code is 1 where an entry has no schedule in timerd."""
    app = _application(application)
    from timerd.contrib.celery import import_beat as imported_of

    call.bar.stop()
    done = await asyncio.to_thread(imported_of, app, call.endpoint.connection(), queue=queue, delete_gone=delete_gone)
    call.out.many(_rows(done), _IMPORTED, "There is nothing in the beat schedule of the application.")
    if done.refused:
        raise CommandFailure("\n".join(done.refused.values()))


def _rows(done: Imported) -> list[dict[str, Any]]:
    gone = "DELETED" if done.deleted else "GONE"
    return [
        *({"entry": entry, "schedule": each, "outcome": "IMPORTED"} for entry, each in done.schedules.items()),
        *({"entry": entry, "outcome": "REFUSED", "problem": why} for entry, why in done.refused.items()),
        *({"entry": each, "schedule": each, "outcome": gone} for each in done.gone),
    ]


def _application(named: str) -> Any:  # noqa: ANN401 - Celery has no types
    """Its module is looked for in the folder of the caller, as Celery's own commands do it."""
    if find_spec("celery") is None:
        raise CommandFailure(_MISSING)
    from celery.app.utils import find_app

    sys.path.insert(0, os.getcwd())
    try:
        return find_app(named)
    except (AttributeError, ImportError) as wrong:
        raise WrongInput(
            f"There is no application of Celery by the name {named} ({wrong}): write it as for `celery -A`."
        ) from wrong


def _connection(broker: str, options: dict[str, Any]) -> Connection:
    """Not connected yet: a broker that is away is waited for."""
    if find_spec("celery") is None:
        raise CommandFailure(_MISSING)
    from kombu import Connection

    try:
        if "://" not in broker:
            raise ValueError("it has no scheme")
        connection = Connection(broker, transport_options=options)
        connection.transport  # noqa: B018 - finds its library
    except (ImportError, AttributeError) as missing:
        # kombu goes on without a library of a broker that it knows, until it needs something of it.
        raise CommandFailure(
            f"The library for {broker.partition(':')[0]}:// is not installed here ({missing}): for Redis it is "
            "pip install 'celery[redis]'."
        ) from missing
    except (KeyError, ValueError) as wrong:
        raise WrongInput(
            f"--broker is no URL of a broker that Celery knows here ({wrong}): write redis://HOST:PORT/0, for example."
        ) from wrong
    return connection


def _options(text: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except ValueError as wrong:
        raise WrongInput(
            f'--transport-options is no JSON ({wrong}): write \'{{"global_keyprefix": "shop:"}}\'.'
        ) from wrong
    if not isinstance(options, dict):
        raise WrongInput('--transport-options is a JSON object: write \'{"global_keyprefix": "shop:"}\'.')
    return options


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=_HELP, no_args_is_help=True)
    group.command()(online(run))
    group.command("import")(online(import_beat))
    app.add_typer(group, name="celery")
