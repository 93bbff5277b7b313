"""`timerd backup` and `timerd restore`: the data of one machine into a file while the server serves, and back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands.failures import CommandFailure, WrongInput, check_platform
from timerd.commands.output import Form, Output
from timerd.commands.progress import Bar
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.model.backup_contents import BackupContents

DataOption = Annotated[
    Path | None, typer.Option("--data", show_default="that of `timerd serve`", help="Folder of the server's data.")
]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Made; must not exist.")],
    config: options.ConfigFile = None,
    data: DataOption = None,
    json: options.Json = False,
) -> None:
    """Copy the data into FILE and check the copy.

    The server goes on meanwhile. The copy holds all payloads.
    """
    check_platform("timerd backup")
    from timerd.model.errors import StartupError

    folder = _folder(config, data)
    try:
        kept = asyncio.run(_copy(folder, file))
    except StartupError as error:
        raise CommandFailure(str(error)) from error
    Output(Form.of(json)).one(_record(file, kept), f"{file} holds {_said(kept)}. It has been read back and is whole.")
    _explain(file, kept)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `timerd backup` has made.")],
    config: options.ConfigFile = None,
    data: DataOption = None,
    json: options.Json = False,
) -> None:
    """Check FILE and put it into a data folder that is empty.

    What was delivered since the copy is delivered again.
    """
    check_platform("timerd restore")
    from timerd.bootstrap import restore_sqlite
    from timerd.model.errors import StartupError

    folder = _folder(config, data)
    try:
        kept = restore_sqlite(file, folder)
    except StartupError as error:
        raise CommandFailure(str(error)) from error
    Output(Form.of(json)).one(_record(folder, kept), f"{folder} holds {_said(kept)}. Start it with `timerd serve`.")
    _explain(folder, kept)


async def _copy(folder: Path, file: Path) -> BackupContents:
    """In a thread; the bar lives in the loop."""
    from timerd.bootstrap import back_up_sqlite

    loop = asyncio.get_running_loop()
    with Bar(f"copying {folder}") as bar:

        def tell(done: int, whole: int) -> None:
            bar.begin(f"copying {folder}", whole)
            bar.reach(done)

        def progress(done: int, whole: int) -> None:
            loop.call_soon_threadsafe(tell, done, whole)

        return await asyncio.to_thread(back_up_sqlite, folder, file, progress)


def _folder(config: Path | None, data: Path | None) -> Path:
    """Where tasks are in Cassandra, no folder is meant unless it is named."""
    from timerd.commands.settings import load

    loaded = load(config, os.environ, {"data": ("--data", data)}).config
    if data is None and loaded.store == "cassandra":
        raise WrongInput(
            "The tasks of this configuration are in Cassandra: take and bring back snapshots there "
            "(docs/operate/backup.md), or name the folder of another server with --data."
        )
    return loaded.data


def unexplained(kept: BackupContents) -> int:
    """Rows of finished buckets without a known end, by the ledger."""
    from timerd.core.ledger import Ledger

    ledger = Ledger()
    ledger.add_finished([each for each in kept.controls if each.finished])
    return ledger.unexplained


def _record(place: Path, kept: BackupContents) -> dict[str, object]:
    return {
        "place": str(place),
        "size_bytes": kept.size_bytes,
        "schema_version": kept.schema_version,
        "rows": kept.rows,
        "dead_letters": kept.dead_letters,
        "unexplained": unexplained(kept),
    }


def _explain(place: Path, kept: BackupContents) -> None:
    """Ends with the exit code of a check that says no; the data are there all the same, for nobody may have better."""
    if unexplained(kept):
        raise CommandFailure(
            f"Rows of finished buckets in {place} that have no known end by the ledger: {unexplained(kept):,}. There "
            "should be none: use a copy from before that if there is one, and see TimerdLedgerImbalance in "
            "docs/operate/runbook.md."
        )


def _said(kept: BackupContents) -> str:
    rows, dead_letters = counted(kept.rows, "row"), counted(kept.dead_letters, "dead letter")
    return f"{rows} and {dead_letters} in {counted(kept.size_bytes, 'byte')}"


def register(app: typer.Typer) -> None:
    app.command()(backup)
    app.command()(restore)
