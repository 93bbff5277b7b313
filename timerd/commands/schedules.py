"""`timerd schedules`: what comes again, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands import backfills, options
from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import WrongInput
from timerd.commands.output import OutputRecord, labels_shown, payload_fields
from timerd.commands.schedule_file import create_from
from timerd.commands.table import Column, Kind
from timerd.commands.task_options import with_task_options
from timerd.commands.times import iso_of, parse_instant, parse_moment, parse_span, shown, shown_twice

if TYPE_CHECKING:
    from timerd.client import Schedule, Upcoming

_COLUMNS = (
    Column("schedule_id", Kind.ID, "id"),
    Column("state"),
    Column("when", Kind.NAME),
    Column("queue", Kind.NAME),
    Column("created", Kind.FIGURE),
    Column("missed", Kind.FIGURE, is_wide=True),
    Column("skipped", Kind.FIGURE, is_wide=True),
    Column("waiting", Kind.FIGURE, is_wide=True),
    Column("revision", Kind.FIGURE, is_wide=True),
    Column("catch_up", is_wide=True),
    Column("overlap", is_wide=True),
    Column("pause_until", Kind.MOMENT, is_wide=True),
    Column("labels", Kind.TEXT, is_spare=True),
    Column("note", Kind.TEXT, is_spare=True),
    Column("error", Kind.TEXT),
)
# What a list does not say of each.
_OF_ONE = ("next", "upcoming", "payload", "payload_base64", "open_task_id", "last")
_PREVIEWED = (
    Column("instant", Kind.INSTANT),
    Column("local_time", Kind.NAME),
    Column("change", Kind.NAME),
    Column("fire_time", Kind.INSTANT, "fires", is_wide=True),
)
_STATES = ("active", "paused", "done", "broken")
_WHEN = "When"
Id = Annotated[str, typer.Argument(metavar="ID", help="The schedule.")]
CronOption = Annotated[
    list[str] | None, typer.Option("--cron", help="Five fields, or six with seconds first.", rich_help_panel=_WHEN)
]
EveryOption = Annotated[str | None, typer.Option("--every", metavar="SPAN", help="10s, 5m, 1d.", rich_help_panel=_WHEN)]
AtTimes = Annotated[
    list[str] | None, typer.Option("--at", metavar="TIME", help="One time; local to --zone.", rich_help_panel=_WHEN)
]
RRuleOption = Annotated[str | None, typer.Option("--rrule", help="A rule of RFC 5545.", rich_help_panel=_WHEN)]
FixedDelay = Annotated[
    str | None,
    typer.Option("--fixed-delay", metavar="SPAN", help="After the end of the last task.", rich_help_panel=_WHEN),
]
Zone = Annotated[str | None, typer.Option("--zone", help="IANA name, as Europe/Berlin.", rich_help_panel=_WHEN)]
StartOption = Annotated[
    str | None, typer.Option("--start", metavar="TIME", help="No instant before it.", rich_help_panel=_WHEN)
]
EndOption = Annotated[
    str | None, typer.Option("--end", metavar="TIME", help="None at or after it.", rich_help_panel=_WHEN)
]
JitterOption = Annotated[
    str | None, typer.Option("--jitter", metavar="SPAN", help="Up to so much later.", rich_help_panel=_WHEN)
]
Except = Annotated[
    list[str] | None, typer.Option("--except", metavar="DAYS", help="2026-12-24/2027-01-01.", rich_help_panel=_WHEN)
]
CatchUpOption = Annotated[str | None, typer.Option("--catch-up", help="latest, all or none.")]
Window = Annotated[str | None, typer.Option("--catch-up-window", metavar="SPAN", help="Of all: no older ones.")]
MaxCount = Annotated[int | None, typer.Option("--max-count", min=0, help="So many tasks at most; 0 = any number.")]
OverlapOption = Annotated[
    str | None,
    typer.Option("--overlap", help="allow, skip, buffer_one, buffer_all, cancel_other or replace: of one still open."),
]
PauseOnDead = Annotated[
    bool | None, typer.Option("--pause-on-dead/--no-pause-on-dead", help="Pause it when a task is a dead letter.")
]
TaskLabelsOption = Annotated[list[str] | None, typer.Option("--label", metavar="K=V", help="May be given again.")]
PayloadOption = Annotated[str | None, typer.Option("--payload", help="Text for the worker.")]
Revision = Annotated[int, typer.Option("--revision", min=0, help="Only if it has this revision.")]


def _when(
    cron: Sequence[str] | None,
    every: str | None,
    at: Sequence[str] | None,
    rrule: str | None,
    fixed_delay: str | None,
    zone: str | None,
    start: str | None,
    end: str | None,
    jitter: str | None,
    days: Sequence[str] | None,
) -> dict[str, Any]:
    """The keywords of the client; only those that are given."""
    given: dict[str, Any] = {"cron": cron, "at": at, "rrule": rrule, "zone": zone, "exclude_dates": days}
    spans = {"every": every, "fixed_delay": fixed_delay, "jitter": jitter}
    given |= {name: span and parse_span(span) for name, span in spans.items()}
    given |= {"start": start and parse_instant(start), "end": end and parse_instant(end)}
    # A span of nothing was typed all the same, and is refused for what it is.
    return {name: value for name, value in given.items() if value or isinstance(value, timedelta)}


def _policies(
    catch_up: str | None, window: str | None, overlap: str | None, pause_on_dead: bool | None
) -> dict[str, Any]:
    given: dict[str, Any] = {"catch_up": catch_up, "catch_up_window": window and parse_span(window), "overlap": overlap}
    chosen = {name: value for name, value in given.items() if value}
    return chosen if pause_on_dead is None else chosen | {"pause_on_dead": pause_on_dead}


@with_task_options
async def create(
    call: CommandCall,
    schedule_id: Annotated[str | None, typer.Argument(metavar="ID", help="The schedule; or give --file.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Workers of this queue receive the tasks.")] = None,
    payload: PayloadOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtTimes = None,
    rrule: RRuleOption = None,
    fixed_delay: FixedDelay = None,
    zone: Zone = None,
    start: StartOption = None,
    end: EndOption = None,
    jitter: JitterOption = None,
    days: Except = None,
    catch_up: CatchUpOption = None,
    window: Window = None,
    max_count: MaxCount = None,
    overlap: OverlapOption = None,
    pause_on_dead: PauseOnDead = None,
    label: TaskLabelsOption = None,
    task_label: Annotated[
        list[str] | None,
        typer.Option("--task-label", metavar="K=V", help="Of its tasks; may be given again.", rich_help_panel="Task"),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Change it where there is one.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="A JSON object a line, one schedule each.")] = None,
    *,
    tasks: dict[str, Any],
) -> None:
    """Create a schedule: a task comes at each of its instants.

    timerd schedules create report --queue mails --cron '0 9 * * MON-FRI' --zone Europe/Berlin
    """
    when = _when(cron, every, at, rrule, fixed_delay, zone, start, end, jitter, days)
    policies = _policies(catch_up, window, overlap, pause_on_dead)
    of_tasks = {"labels": options.parse_labels(task_label), **tasks}
    if file is not None:
        if schedule_id or queue or payload or when or policies or max_count or label or any(of_tasks.values()):
            raise WrongInput("--file stands for many schedules: give nothing with it but --update.")
        return await create_from(call, file, is_update=update)
    if schedule_id is None or queue is None:
        raise WrongInput("Say what to create: an ID and --queue, or --file.")
    from timerd.client import TaskOptions

    client = await call.connect()
    made = await client.schedules.create(
        schedule_id,
        queue=queue,
        payload=(payload or "").encode(errors="surrogateescape"),
        max_count=max_count or 0,
        labels=options.parse_labels(label),
        on_conflict="update" if update else "reject",
        options=TaskOptions(**of_tasks),
        **policies,
        **when,
    )
    call.out.one(_record(made), f"{made.id}: {_next_shown(made)}.")


async def list_schedules(
    call: CommandCall,
    prefix: Annotated[str, typer.Option("--prefix", help="Whose ID begins so.")] = "",
    state: Annotated[list[str] | None, typer.Option("--state", help="active, paused, done, broken.")] = None,
    zone: Annotated[str, typer.Option("--zone", help="Of this zone.")] = "",
    label: options.LabelsOption = None,
) -> None:
    """List schedules, in no order."""
    states, labels = _states(state or ()), options.parse_labels(label)
    client = await call.connect()
    found = client.schedules.list(prefix=prefix, states=states, zone=zone, labels=labels)
    records = [_listed(each) async for each in found]
    call.out.many(records, _COLUMNS, "No schedules.")


def _listed(schedule: Schedule) -> OutputRecord:
    """Without what a list does not say."""
    return {name: value for name, value in _record(schedule).items() if name not in _OF_ONE}


def _states(names: Sequence[str]) -> list[Any]:
    from timerd.client import ScheduleState

    wrong = [name for name in names if name.lower() not in _STATES]
    if wrong:
        raise WrongInput(f"{wrong[0]!r} is not a state of a schedule: allowed are {', '.join(_STATES)}.")
    return [ScheduleState[name.upper()] for name in names]


async def show(call: CommandCall, schedule_id: Id) -> None:
    """Show a schedule, and when it comes next."""
    client = await call.connect()
    found = await client.schedules.get(schedule_id)
    record = _record(found)
    upcoming = "\n".join(shown_twice(each.fire_time) for each in found.upcoming)
    last = "\n".join(f"{shown(each.instant)} {each.state.name}" for each in found.last)
    words = {"upcoming": upcoming, "labels": labels_shown(found.labels), "next": "", "last": last}
    call.out.details(record, record | words | _rules_in_words(found))


async def preview(
    call: CommandCall,
    schedule_id: Annotated[str | None, typer.Argument(metavar="ID", help="The schedule; or say when.")] = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtTimes = None,
    rrule: RRuleOption = None,
    zone: Zone = None,
    start: StartOption = None,
    end: EndOption = None,
    jitter: JitterOption = None,
    days: Except = None,
    after: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="After this instant; default now.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1_000, help="So many.")] = 10,
) -> None:
    """Show the next instants of a schedule.

    Or of what you are about to create: say when instead of an ID.
    """
    when = _when(cron, every, at, rrule, None, zone, start, end, jitter, days)
    if (schedule_id is None) == (not when):
        raise WrongInput("Say what to look at: either an ID, or when (--cron, --every, --at, --rrule).")
    client = await call.connect()
    since = parse_moment(after) if after is not None else None
    found = await client.schedules.preview(schedule_id, after=since, count=count, **when)
    call.out.many(map(_previewed, found), _PREVIEWED, "It has no instant from then on.")


def _previewed(each: Upcoming) -> OutputRecord:
    day, _, time = each.named_time.partition("T")
    named = time if each.local_time.startswith(day) else each.named_time
    change = f"{each.change} from {named}" if each.change else ""
    fire_time = iso_of(each.fire_time) if each.change != "SKIPPED" else ""
    return {"instant": iso_of(each.instant), "local_time": each.local_time, "change": change, "fire_time": fire_time}


async def pause(
    call: CommandCall,
    schedule_id: Id,
    note: Annotated[str, typer.Option("--note", help="Why, for the reader of the schedule.")] = "",
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="It resumes by itself then.")] = None,
    revision: Revision = 0,
) -> None:
    """Pause a schedule: nothing of it starts until it is resumed."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    paused = await client.schedules.pause(schedule_id, note=note, until=end, revision=revision)
    call.out.one(_record(paused), f"{paused.id} is paused.")


async def resume(
    call: CommandCall,
    schedule_id: Id,
    catch_up: Annotated[bool, typer.Option("--catch-up", help="With what it missed, by its policy.")] = False,
    revision: Revision = 0,
) -> None:
    """End a pause."""
    client = await call.connect()
    resumed = await client.schedules.resume(schedule_id, catch_up=catch_up, revision=revision)
    call.out.one(_record(resumed), f"{resumed.id}: {_next_shown(resumed)}.")


async def trigger(call: CommandCall, schedule_id: Id) -> None:
    """Make a task of a schedule now, beside its instants."""
    client = await call.connect()
    task_id = await client.schedules.trigger(schedule_id)
    call.out.one({"schedule_id": schedule_id, "task_id": task_id}, f"Triggered: {task_id}.")


async def update(
    call: CommandCall,
    schedule_id: Id,
    queue: Annotated[str | None, typer.Option("--queue", help="Another queue.")] = None,
    payload: PayloadOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtTimes = None,
    rrule: RRuleOption = None,
    fixed_delay: FixedDelay = None,
    zone: Zone = None,
    start: StartOption = None,
    end: EndOption = None,
    jitter: JitterOption = None,
    days: Except = None,
    catch_up: CatchUpOption = None,
    window: Window = None,
    max_count: MaxCount = None,
    overlap: OverlapOption = None,
    pause_on_dead: PauseOnDead = None,
    revision: Revision = 0,
) -> None:
    """Change a schedule at one moment.

    What is not given stays; when is given as a whole, but for its zone.
    """
    when = _when(cron, every, at, rrule, fixed_delay, zone, start, end, jitter, days)
    policies = _policies(catch_up, window, overlap, pause_on_dead)
    if window and not catch_up:
        raise WrongInput("--catch-up-window belongs to the policy: give --catch-up with it.")
    if not (when or policies) and (queue, payload, max_count) == (None, None, None):
        raise WrongInput("Say what changes: when it comes (as --cron), a policy (as --overlap), or its tasks: --queue.")
    data = payload.encode(errors="surrogateescape") if payload is not None else None
    client = await call.connect()
    changed = await client.schedules.update(
        schedule_id, queue=queue, payload=data, max_count=max_count, revision=revision, **policies, **when
    )
    call.out.one(_record(changed), f"{changed.id} has revision {changed.revision}: {_next_shown(changed)}.")


async def delete(
    call: CommandCall,
    schedule_id: Id,
    cancel_open: Annotated[bool, typer.Option("--cancel-open", help="Cancel the task that is open too.")] = False,
    revision: Revision = 0,
) -> None:
    """Delete a schedule: nothing of it starts any more."""
    client = await call.connect()
    await client.schedules.delete(schedule_id, cancel_open=cancel_open, revision=revision)
    call.out.one({"schedule_id": schedule_id, "deleted": True}, f"{schedule_id} is deleted.")


async def prune(
    call: CommandCall,
    label: options.LabelsOption = None,
    keep: Annotated[str, typer.Option("--keep", metavar="ID,ID", help="Those that stay.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Really delete them; without it nothing is changed.")] = False,
) -> None:
    """Delete what nothing declares any more; --force does it.

    These are the schedules of a label, but for those of --keep. Without --force it is a dry run.
    """
    labels = options.parse_labels(label)
    if not labels:
        raise WrongInput("Say whose schedules: give --label with what your code sets on all its schedules.")
    client = await call.connect()
    call.bar.begin("pruning")
    kept = [each.strip() for each in keep.split(",") if each.strip()]
    pruned = await client.schedules.prune(labels=labels, keep=kept, force=force)
    said = "would be deleted. Nothing was: add --force to delete them" if pruned.dry_run else "were deleted"
    shown = "".join(f"{each}\n" for each in pruned.ids)
    call.out.one({"schedule_ids": pruned.ids, "dry_run": pruned.dry_run}, f"{shown}{len(pruned.ids):,} {said}.")


def _record(schedule: Schedule) -> dict[str, Any]:
    times = [iso_of(each.fire_time) for each in schedule.upcoming]
    return {
        "schedule_id": schedule.id,
        "namespace": schedule.namespace,
        "queue": schedule.queue,
        "state": schedule.state.name,
        "revision": schedule.revision,
        "when": schedule.when,
        "next": times[0] if times else "",
        **_rules(schedule),
        "catch_up": schedule.catch_up,
        "max_count": schedule.max_count,
        **payload_fields(schedule.payload),
        "labels": schedule.labels,
        "note": schedule.note,
        "pause_until": iso_of(schedule.pause_until) if schedule.pause_until is not None else None,
        "error": schedule.error,
        "created": schedule.created,
        "missed": schedule.missed,
        "overlap": schedule.overlap,
        "pause_on_dead": schedule.pause_on_dead,
        "skipped": schedule.skipped,
        "waiting": schedule.waiting,
        "open_task_id": schedule.open_task_id,
        "last": [{"instant": iso_of(each.instant), "state": each.state.name} for each in schedule.last],
        "upcoming": times,
    }


def _rules(schedule: Schedule) -> dict[str, Any]:
    """What the times of a schedule go by, besides `when`."""
    spec, window = schedule.spec, schedule.catch_up_window
    return {
        "zone": spec.zone or "UTC",
        "start": iso_of(spec.start_time.ToDatetime(UTC)) if spec.HasField("start_time") else None,
        "end": iso_of(spec.end_time.ToDatetime(UTC)) if spec.HasField("end_time") else None,
        "jitter_s": spec.jitter.ToTimedelta().total_seconds() if spec.HasField("jitter") else None,
        "excluded": [*schedule.excluded],
        "gap": schedule.gap,
        "repeat": schedule.repeat,
        "catch_up_window_s": window.total_seconds() if window is not None else None,
    }


def _rules_in_words(schedule: Schedule) -> dict[str, str]:
    """Without what goes without saying."""
    return {
        "excluded": "\n".join(schedule.excluded),
        "gap": schedule.gap.replace("auto", ""),
        "repeat": schedule.repeat.replace("auto", ""),
    }


def _next_shown(schedule: Schedule) -> str:
    return f"next at {shown(schedule.upcoming[0].fire_time)}" if schedule.upcoming else schedule.state.name.lower()


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="What comes again: recurring schedules.", no_args_is_help=True)
    group.command()(online(create))
    group.command("list")(listing(list_schedules))
    group.command()(listing(show))
    group.command()(listing(preview))
    for command in (pause, resume, trigger, update, delete, prune):
        group.command()(online(command))
    backfills.add_to(group)
    app.add_typer(group, name="schedules")
