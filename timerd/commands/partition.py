"""`timerd partition`: one bucket shard by shard, its control row, how its rows ended, and what the holder says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.call import CommandCall, listing
from timerd.commands.cluster import bucket_start, held_record
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_moment, shown
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.v1.operate_pb2 import ControlRow, GetPartitionResponse, PartitionInfo

_COLUMNS = (
    Column("shard", Kind.FIGURE),
    Column("holder", Kind.NAME),
    Column("token", Kind.FIGURE, is_spare=True),
    Column("phase", is_spare=True),
    Column("closing", Kind.FIGURE),
    Column("verified", Kind.FIGURE),
    Column("rows", Kind.FIGURE),
    Column("ended", Kind.NAME),
    Column("unexplained", Kind.FIGURE),
    Column("waiting", Kind.FIGURE),
    Column("open", Kind.FIGURE),
)
_CONTROL = ("fencing_token", "holder", "address", "incarnation", "successor", "closing_ms", "verified_ms", "inserted")
# Of milliseconds since the epoch.
_LEAST_DIGITS = 9


async def partition(
    call: CommandCall,
    bucket: Annotated[
        str, typer.Argument(metavar="BUCKET", help="Any time in it: ISO, `now`, a span from now, or ms since 1970.")
    ],
    shard: Annotated[
        int | None, typer.Argument(metavar="[SHARD]", min=0, help="All of the bucket if left out.")
    ] = None,
    queue: Annotated[str, typer.Option("--queue", help="The backlog of this queue instead of the bucket.")] = "",
    count: Annotated[
        bool, typer.Option("--count", help="Also count the rows, which reads the keys of all of them.")
    ] = False,
) -> None:
    """Show a bucket: control row, ledger and counts of each shard."""
    moment = parse_bucket(bucket)
    client = await call.connect()
    call.bar.begin("counting" if count else "reading")
    found = await client.partition(moment, shard, queue=queue, count_rows=count)
    if not found.partitions:
        raise CommandFailure(
            f"No task was ever stored in the bucket of {iso_of(moment)}"
            + (f" of the backlog of {queue!r}" if queue else "")
            + ": `timerd count --from ... --to ...` shows where tasks are."
        )
    if call.out.as_json:
        call.out.many((record_of(found, info) for info in found.partitions), (), "")
        return
    call.out.say(_summary(found))
    call.out.many(map(_row, found.partitions), _COLUMNS, "")


def parse_bucket(text: str) -> datetime:
    compact = text.strip()
    if compact.isdigit() and len(compact) >= _LEAST_DIGITS:
        try:
            return datetime.fromtimestamp(int(compact) / 1000, UTC)
        except (OverflowError, ValueError, OSError):
            raise WrongInput(f"{text!r} is no time: milliseconds since 1970 are allowed up to the year 9999.") from None
    return parse_moment(text)


def record_of(found: GetPartitionResponse, info: PartitionInfo) -> dict[str, Any]:
    return {
        "bucket": iso_of(bucket_start(info.bucket_start_ms)),
        "bucket_start_ms": info.bucket_start_ms,
        "scope": info.scope,
        "shard": info.shard,
        "announced": found.announced,
        "finishing": found.finishing,
        "finished": found.finished,
        "placed_on": info.placed_on,
        "control": control_record(info.control) if info.HasField("control") else None,
        "ended": dict(sorted(info.ended.items())),
        "unexplained": info.unexplained,
        "settle_records": info.settle_records,
        "rows": info.rows if info.HasField("rows") else None,
        "held": held_record(info.held) if info.HasField("held") else None,
    }


def control_record(control: ControlRow) -> dict[str, Any]:
    finished = iso_of(control.finish_time.ToDatetime(UTC)) if control.HasField("finish_time") else None
    return {name: getattr(control, name) for name in _CONTROL} | {"finish_time": finished}


def _summary(found: GetPartitionResponse) -> str:
    start = shown(bucket_start(found.partitions[0].bucket_start_ms))
    what = [name for name in ("finishing", "finished") if getattr(found, name)][-1:] or ["open"]
    if not found.announced:
        what = ["not in the catalogue: no task was stored there, or it was dropped when its history ended"]
    return f"bucket of {start}, {counted(found.shard_count, 'shard')}, {what[0]}"


def _row(info: PartitionInfo) -> dict[str, Any]:
    control, held = info.control, info.held
    is_finished = control.HasField("finish_time")
    nobody = f"nobody; placed on {info.placed_on}" if info.placed_on and not is_finished else "nobody"
    return {
        "shard": info.shard,
        "holder": "finished" if is_finished else control.holder or nobody,
        "token": control.fencing_token or "",
        "phase": held.phase,
        "closing": _after(control.closing_ms, info) if info.HasField("control") else "",
        "verified": _after(control.verified_ms, info) if info.HasField("control") else "",
        "rows": info.rows if info.HasField("rows") else control.inserted if is_finished else "",
        "ended": ", ".join(f"{count:,} {name}" for name, count in sorted(info.ended.items())),
        "unexplained": info.unexplained or "",
        "waiting": held.waiting if info.HasField("held") else "",
        "open": held.open if info.HasField("held") else "",
    }


def _after(mark_ms: int, info: PartitionInfo) -> str:
    """Where a mark stands, from the start of the bucket."""
    return f"+{(mark_ms - info.bucket_start_ms) / 1000:.3f}s"


def register(app: typer.Typer) -> None:
    app.command()(listing(partition))
