"""`timerd announce`: that a hot minute is coming, so that its bucket has enough shards before its tasks are there."""

from __future__ import annotations

from typing import Annotated

import typer

from timerd.commands.call import CommandCall, online
from timerd.commands.cluster import bucket_start
from timerd.commands.partition import parse_bucket
from timerd.commands.times import iso_of
from timerd.model.counted import counted


async def announce(
    call: CommandCall,
    bucket: Annotated[
        str, typer.Argument(metavar="BUCKET", help="Any time in it: ISO, `now`, a span from now, or ms since 1970.")
    ],
    tasks: Annotated[int, typer.Option(help="How many tasks will be due in these five minutes.")],
    payload_bytes: Annotated[int, typer.Option("--payload-bytes", help="Of one of them, about.")] = 0,
) -> None:
    """Give a bucket the shards that much at once needs.

    It gets as many as all instances need to fire it together, and never fewer. One that is found hot while it is
    written gets more by itself.
    """
    client = await call.connect()
    given = await client.announce(parse_bucket(bucket), tasks, payload_bytes=payload_bytes)
    start = iso_of(bucket_start(given.bucket_start_ms))
    call.out.one(
        {"bucket": start, "bucket_start_ms": given.bucket_start_ms, "shard_count": given.shard_count},
        _told(start, given.shard_count),
    )


def _told(start: str, shard_count: int) -> str:
    if shard_count == 1:
        return f"The bucket of {start} has 1 shard: one instance fires all of it."
    return f"The bucket of {start} has {counted(shard_count, 'shard')}."


def register(app: typer.Typer) -> None:
    app.command()(online(announce))
