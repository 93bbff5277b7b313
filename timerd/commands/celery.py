"""`timerd celery run`: hands to Celery's broker what is due, and knows nothing of the application but its broker."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.call import CommandCall, online
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.plain_log import log_plainly

if TYPE_CHECKING:
    from kombu import Connection

_HELP = "Celery tasks with a long eta or countdown."


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


def _connection(broker: str, options: dict[str, Any]) -> Connection:
    """Not connected yet: a broker that is away is waited for."""
    if find_spec("celery") is None:
        raise CommandFailure("This command needs Celery, which is not installed: pip install 'timerd[celery]'.")
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
    app.add_typer(group, name="celery")
