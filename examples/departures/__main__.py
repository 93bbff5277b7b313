"""`python -m examples.departures replay | judge | year | scaling`: real flights on a running timerd."""

from __future__ import annotations

import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from examples.departures.data import MINUTE_MS, YEAR, DataError
from examples.departures.processes import RunError
from timerd import TimerdError

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)
Server = Annotated[str | None, typer.Option(metavar="HOST:PORT", help="A running timerd; without it, one is started.")]
Day = Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help=f"A day of {YEAR}.")]
Lead = Annotated[int, typer.Option(min=0, max=720, help="Minutes from the reminder to the departure.")]
# The day with the most flights that never left: a blizzard.
_DEFAULT_DAY = datetime(2013, 2, 8)
# One of the fullest, and all but a few left.
_BUSY_DAY = datetime(2013, 11, 27)


@app.command()
def replay(
    day: Day = _DEFAULT_DAY,
    speed: Annotated[int, typer.Option(min=1, max=100_000, help="1440 makes a day a minute.")] = 1440,
    lead: Lead = 30,
    logs: Annotated[Path | None, typer.Option(help="Folder for the logs; without it, a temporary one.")] = None,
    server: Server = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="On three instances and Cassandra; one is killed in the middle.")
    ] = False,
) -> None:
    """Replay a day: store its boarding reminders, move and cancel them as the facts become known, ask the oracle."""
    from examples.departures.replay import Wish
    from examples.departures.replay import replay as replay_day

    if cluster and server is not None:
        raise RunError("--cluster starts instances of its own: leave out --server, or --cluster.")
    folder = logs or Path(tempfile.mkdtemp(prefix="departures-"))
    _leave(replay_day(Wish(day.date(), speed, lead * MINUTE_MS, folder, server, cluster), Console()))


@app.command()
def judge(folder: Annotated[Path, typer.Argument(help="The --logs of a replay.")]) -> None:
    """Ask the oracle again about a replay that is over."""
    from examples.departures.replay import judge_folder

    _leave(judge_folder(folder, Console()))


@app.command()
def year(
    day: Day = _DEFAULT_DAY,
    lead: Lead = 30,
    months: Annotated[int, typer.Option(min=1, max=12, help="Only so many of the year, from January.")] = 12,
    server: Server = None,
) -> None:
    """The whole year, moved into the future: store it, count it by month, list one day, purge it."""
    from examples.departures.year import replay_year

    _leave(replay_year(server, day.date(), lead * MINUTE_MS, months, Console()))


@app.command()
def scaling(
    day: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help=f"A day of {YEAR}.")] = _BUSY_DAY,
    plot: Annotated[Path | None, typer.Option(help="Where to draw it; without it, docs/plots/scaler.png.")] = None,
) -> None:
    """How many workers an autoscaler asks for over a day, with and without looking ahead. Starts no server."""
    from examples.departures.scaling import PLOT, plot_day

    _leave(plot_day(day.date(), plot or PLOT, Console()))


@app.command(hidden=True)
def work(server: Annotated[str, typer.Option()], queue: Annotated[str, typer.Option()], log: Path = Path()) -> None:
    """The worker of a replay, which starts it."""
    from examples.departures.work import run_worker

    run_worker(server, queue, log)


def _leave(all_is_right: bool) -> None:
    raise typer.Exit(0 if all_is_right else 1)


def main() -> None:
    try:
        app()
    except (DataError, RunError, TimerdError) as error:
        print(f"departures: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
