"""`timerd cycles`: members that have their turn in every period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from timerd.commands import options
from timerd.commands.call import CommandCall, form_of_listing, listing, online
from timerd.commands.failures import WrongInput
from timerd.commands.output import Output, OutputRecord, labels_shown, payload_fields
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_instant, parse_moment, parse_span, shown, shown_twice
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import Cycle, Rebalance

_COLUMNS = (
    Column("cycle_id", Kind.ID, "id"),
    Column("state"),
    Column("period"),
    Column("slots", Kind.FIGURE),
    Column("queue", Kind.NAME),
    Column("slot_queue", Kind.NAME),
    Column("slots_created", Kind.FIGURE, "created"),
    Column("slots_missed", Kind.FIGURE, "missed", is_wide=True),
    Column("revision", Kind.FIGURE, is_wide=True),
    Column("origin", Kind.MOMENT, is_wide=True),
    Column("lead", is_wide=True),
    Column("pause_until", Kind.MOMENT, is_wide=True),
    Column("labels", Kind.TEXT, is_spare=True),
    Column("note", Kind.TEXT, is_spare=True),
    Column("error", Kind.TEXT),
)
_MEMBER_COLUMNS = (
    Column("key", Kind.ID),
    Column("place", Kind.NAME),
    Column("weight", Kind.FIGURE),
    Column("payload", Kind.TEXT),
)
# What a list does not say of each.
_OF_ONE = ("next_slot", "members", "mean", "largest", "costs")
CycleId = Annotated[str, typer.Argument(metavar="ID", help="The cycle.")]
OfRevision = Annotated[int, typer.Option("--revision", min=0, help="Only if it has this revision.")]
OfPlace = Annotated[str, typer.Option("--place", help="The kind of turn, of a cycle with places.")]
MemberKeys = Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys of the members.")]
_POSTGRES = r"""ALTER TABLE {table} ADD COLUMN slot_hash bigint GENERATED ALWAYS AS
  ((('x' || substr(encode(sha256({bytes}), 'hex'), 1, 16))::bit(64) # x'8000000000000000')::bigint) STORED;
CREATE INDEX {table}_slot_hash ON {table} (slot_hash);
"""
_MYSQL = """-- Where the key is a CHAR, write RTRIM({key}) within SHA2: how it is filled up depends on the session.
ALTER TABLE {table} ADD COLUMN slot_hash bigint GENERATED ALWAYS AS
  (CAST(CAST(CONV(LEFT(SHA2({key}, 256), 16), 16, 10) AS UNSIGNED) ^ 9223372036854775808 AS SIGNED)) STORED;
CREATE INDEX {table}_slot_hash ON {table} (slot_hash);
"""
_SQLITE = """-- On each connection, in Python: connection.create_function("slot_hash", 1, slot_hash, deterministic=True)
-- with: from timerd.client import slot_hash
ALTER TABLE {table} ADD COLUMN slot_hash integer GENERATED ALWAYS AS (slot_hash({key})) VIRTUAL;
CREATE INDEX {table}_slot_hash ON {table} (slot_hash);
"""
_DIALECTS = {"postgres": _POSTGRES, "mysql": _MYSQL, "sqlite": _SQLITE}


async def create(
    call: CommandCall,
    cycle_id: CycleId,
    every: Annotated[str, typer.Option("--every", metavar="SPAN", help="How long a cycle is: 8h, 1d.")],
    queue: Annotated[str, typer.Option("--queue", help="Workers of this queue receive the members' tasks.")],
    slot_queue: Annotated[
        str, typer.Option("--slot-queue", help="Workers of this queue fill the slots; without it timerd does.")
    ] = "",
    slots: Annotated[int, typer.Option("--slots", min=0, help="So many slots; 0 = slots of a minute.")] = 0,
    origin: Annotated[str | None, typer.Option("--origin", metavar="TIME", help="From when cycles count.")] = None,
    place: Annotated[
        list[str] | None, typer.Option("--place", help="A kind of turn of one member; repeat it for each.")
    ] = None,
    label: options.LabelsOption = None,
) -> None:
    """Create a cycle: each of its members has a turn in every period.

    timerd cycles create sync --every 8h --queue accounts --slot-queue account-slots
    """
    span, labels = parse_span(every), options.parse_labels(label)
    since = parse_instant(origin) if origin is not None else None
    client = await call.connect()
    made = await client.cycles.create(
        cycle_id,
        every=span,
        queue=queue,
        slot_queue=slot_queue,
        slots=slots,
        origin=since,
        places=place or [],
        labels=labels,
    )
    call.out.one(_record(made), f"{made.id}: {counted(made.slots, 'slot')}, {_next_shown(made)}.")


async def list_cycles(
    call: CommandCall,
    prefix: Annotated[str, typer.Option("--prefix", help="Whose ID begins so.")] = "",
    label: options.LabelsOption = None,
) -> None:
    """List cycles, in no order."""
    labels = options.parse_labels(label)
    client = await call.connect()
    records = [_listed(each) async for each in client.cycles.list(prefix=prefix, labels=labels)]
    call.out.many(records, _COLUMNS, "No cycles.")


async def show(call: CommandCall, cycle_id: CycleId) -> None:
    """Show a cycle, and what its slots cost."""
    client = await call.connect()
    found = await client.cycles.get(cycle_id)
    record = _record(found)
    largest = max(found.costs, key=lambda each: each.weight, default=None)
    words: OutputRecord = {
        "labels": labels_shown(found.labels),
        "places": ", ".join(found.places),
        "next_slot": shown_twice(found.next_slot) if found.next_slot is not None else "",
        "largest": f"slot {largest.slot} with {largest.weight:,g}" if largest is not None else "",
        "costs": f"of {counted(len(found.costs), 'slot')} that were filled; --json shows each",
    }
    call.out.details(record, {**record, **words})


async def pause(
    call: CommandCall,
    cycle_id: CycleId,
    note: Annotated[str, typer.Option("--note", help="Why, for people who look.")] = "",
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="It resumes by itself then.")] = None,
    revision: OfRevision = 0,
) -> None:
    """Pause a cycle: no slot begins until it is resumed."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    paused = await client.cycles.pause(cycle_id, note=note, until=end, revision=revision)
    call.out.one(_record(paused), f"{paused.id} is paused.")


async def resume(
    call: CommandCall,
    cycle_id: CycleId,
    catch_up: Annotated[bool, typer.Option("--catch-up", help="With the slots of the last period.")] = False,
    revision: OfRevision = 0,
) -> None:
    """End a pause."""
    client = await call.connect()
    resumed = await client.cycles.resume(cycle_id, catch_up=catch_up, revision=revision)
    call.out.one(_record(resumed), f"{resumed.id}: {_next_shown(resumed)}.")


async def delete(call: CommandCall, cycle_id: CycleId, revision: OfRevision = 0) -> None:
    """Delete a cycle: no slot of it begins any more."""
    client = await call.connect()
    await client.cycles.delete(cycle_id, revision=revision)
    call.out.one({"cycle_id": cycle_id, "deleted": True}, f"{cycle_id} is deleted.")


async def put(
    call: CommandCall,
    cycle_id: CycleId,
    keys: MemberKeys,
    weight: Annotated[float, typer.Option("--weight", help="What a turn of each costs beside those of others.")] = 1.0,
    place: OfPlace = "",
) -> None:
    """Make members of a cycle whose members timerd keeps."""
    client = await call.connect()
    members = await client.cycles.put(cycle_id, keys, weights=[weight] * len(keys), place=place)
    call.out.one({"cycle_id": cycle_id, "members": members}, f"{counted(members, 'key', 'are')} members.")


async def remove(call: CommandCall, cycle_id: CycleId, keys: MemberKeys, place: OfPlace = "") -> None:
    """Remove members: nothing of them starts any more."""
    client = await call.connect()
    await client.cycles.remove(cycle_id, keys, place=place)
    call.out.one({"cycle_id": cycle_id, "removed": len(keys)}, f"{counted(len(keys), 'key', 'were')} removed.")


async def rebalance(
    call: CommandCall,
    cycle_id: CycleId,
    max_moved: Annotated[
        str, typer.Option("--max-moved", metavar="SHARE", help="Of the members, as 1% or 0.01.")
    ] = "1%",
    force: Annotated[bool, typer.Option("--force", help="Move them; without it only say what would be moved.")] = False,
    revision: OfRevision = 0,
) -> None:
    """Move members of a high weight out of costly slots."""
    share = _parse_share(max_moved)
    client = await call.connect()
    done = await client.cycles.rebalance(cycle_id, max_moved=share, force=force, revision=revision)
    effective = done.effective_time
    record: OutputRecord = {
        "cycle_id": cycle_id,
        "moved": done.moved,
        "members": done.members,
        "mean": round(done.mean, 3),
        "largest_before": round(done.largest_before, 3),
        "largest": round(done.largest, 3),
        "largest_key": done.largest_key,
        "effective_time": iso_of(effective) if effective is not None else None,
        "dry_run": not force,
    }
    call.out.one(record, _rebalance_shown(done, force=force))


def _rebalance_shown(done: Rebalance, *, force: bool) -> str:
    what = "are moved" if force else "would be moved"
    slots = (
        f"the costliest slot {done.largest_before:,.1f} before, {done.largest:,.1f} after, {done.mean:,.1f} in the mean"
    )
    giant = f" {done.largest_key} makes any slot cost more than it should." if done.largest_key else ""
    if done.effective_time is not None:
        return f"{done.moved:,} of {done.members:,} {what} at {shown(done.effective_time)}: {slots}.{giant}"
    again = " Repeat it with --force to move them." if done.moved and not force else ""
    return f"{done.moved:,} of {done.members:,} {what}: {slots}.{giant}{again}"


def _parse_share(text: str) -> float:
    """Raises WrongInput."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise WrongInput(f"--max-moved {text!r} is no share of the members: give one as 1% or 0.01, up to 100%.")
    return share


async def list_members(call: CommandCall, cycle_id: CycleId, place: OfPlace = "") -> None:
    """List the members of a cycle, by their moments."""
    client = await call.connect()
    records = [
        {"key": each.key, "place": each.place, "weight": each.weight, **payload_fields(each.payload)}
        async for each in client.cycles.members(cycle_id, place=place)
    ]
    call.out.many(records, _MEMBER_COLUMNS, "No members.")


def sql(
    dialect: Annotated[str, typer.Option("--dialect", help="postgres, mysql or sqlite.")],
    table: Annotated[str, typer.Option("--table", help="Of the members.")] = "account",
    key: Annotated[str, typer.Option("--key", help="Its column.")] = "id",
    text: Annotated[
        bool, typer.Option("--text", help="The key is a text: of PostgreSQL it is written otherwise.")
    ] = False,
    place: Annotated[
        list[str] | None, typer.Option("--place", help="A place of the cycle; repeat it for each, in their order.")
    ] = None,
    json: options.Json = False,
    output: options.OutputOption = None,
) -> None:
    """Print the SQL by which a database finds the members of a slot."""
    out = Output(form_of_listing(json, output))
    if dialect not in _DIALECTS:
        raise WrongInput(f"{dialect!r} is not a dialect: allowed are {', '.join(_DIALECTS)}.")
    packed = rf"replace({key}, '\', '\\')::bytea" if text else f"{key}::text::bytea"
    made = _DIALECTS[dialect].format(table=table, key=key, bytes=packed)
    select = f"{_selects(table, key, place or [])};"
    record = {"dialect": dialect, "table": table, "key": key, "places": place or [], "ddl": made, "select": select}
    out.one(record, made + select)


def _selects(table: str, key: str, places: list[str]) -> str:
    """The members of a slot; with places those of each, of which the ranges have a number."""
    begin, end = f"SELECT {key}", f" FROM {table} WHERE slot_hash BETWEEN "
    if not places:
        return f"{begin}{end}:lo AND :hi"
    each = (f"{begin}, '{name}' AS place{end}:lo{n} AND :hi{n}" for n, name in enumerate(places))
    return "\nUNION ALL ".join(each)


def _listed(cycle: Cycle) -> OutputRecord:
    """Without what a list does not say."""
    return {name: value for name, value in _record(cycle).items() if name not in _OF_ONE}


def _record(cycle: Cycle) -> OutputRecord:
    members, weights = [each.members for each in cycle.costs], [each.weight for each in cycle.costs]
    return {
        "cycle_id": cycle.id,
        "namespace": cycle.namespace,
        "state": cycle.state.name,
        "revision": cycle.revision,
        "period": str(cycle.period),
        "origin": iso_of(cycle.origin),
        "slots": cycle.slots,
        "places": list(cycle.places),
        "lead": str(cycle.lead),
        "queue": cycle.queue,
        "slot_queue": cycle.slot_queue,
        "labels": cycle.labels,
        "note": cycle.note,
        "pause_until": iso_of(cycle.pause_until) if cycle.pause_until is not None else None,
        "error": cycle.error,
        "slots_created": cycle.slots_created,
        "slots_missed": cycle.slots_missed,
        "next_slot": iso_of(cycle.next_slot) if cycle.next_slot is not None else None,
        "members": sum(members),
        "mean": round(sum(weights) / len(weights), 1) if weights else 0,
        "largest": max(weights, default=0),
        "costs": [
            {"slot": each.slot, "cycle": each.cycle, "members": each.members, "weight": each.weight}
            for each in cycle.costs
        ],
    }


def _next_shown(cycle: Cycle) -> str:
    return f"next slot at {shown(cycle.next_slot)}" if cycle.next_slot is not None else cycle.state.name.lower()


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What every member has in turn: cycles.", no_args_is_help=True)
    group.command()(online(create))
    group.command("list")(listing(list_cycles))
    group.command()(listing(show))
    for command in (pause, resume, delete, put, remove, rebalance):
        group.command()(online(command))
    group.command("members")(listing(list_members))
    group.command()(sql)
    app.add_typer(group, name="cycles")
