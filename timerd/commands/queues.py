"""`timerd queues`: whether a queue takes tasks in and sends them, and how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.adaptive import adaptive_of, adaptive_record, adaptive_text
from timerd.commands.call import CommandCall, listing, online
from timerd.commands.failures import WrongInput
from timerd.commands.key_rules import key_limits, key_weights, keys_record, keys_shown, keys_text, overrides_text
from timerd.commands.limit_text import limit_record, limit_shown
from timerd.commands.output import Form, OutputRecord
from timerd.commands.table import Column, Kind
from timerd.commands.times import iso_of, parse_moment, shown, shown_twice

if TYPE_CHECKING:
    from timerd.client import QueueInfo

_COLUMNS = (
    Column("queue", Kind.ID),
    Column("mode"),
    Column("until", Kind.MOMENT),
    Column("max_in_hand", Kind.FIGURE, "in hand"),
    Column("rate", Kind.FIGURE),
    Column("burst", Kind.FIGURE, is_wide=True),
    Column("limits"),
    Column("breaker"),
    Column("adaptive", Kind.TEXT),
    Column("held_until", Kind.MOMENT, "held until", is_wide=True),
    Column("ordering"),
    Column("keys", Kind.TEXT, "limit keys"),
    Column("order", is_wide=True),
    Column("revision", Kind.FIGURE, is_wide=True),
    Column("note", Kind.TEXT),
)
ALL_LIMITS = ("rate", "max-in-hand", "limits", "breaker", "adaptive", "keys")
# By the names of the options, and what the client calls it where that is another name.
CLEARED = (*ALL_LIMITS, "burst", "key-rate", "key-max-in-hand", "key-share", "key", "key-weight", "ordering", "order")
_CALLED = {"key": "key_limits", "key_weight": "key_weights"}
RuledQueue = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue.")]
IfRevision = Annotated[int, typer.Option("--revision", min=0, help="Only if it has this revision.")]
Note = Annotated[str, typer.Option("--note", help="Why, for people who look.")]
Rate = Annotated[str | None, typer.Option("--rate", metavar="N/TIME", help="Starts: 100/s, 30/m, 5/10s.")]
Burst = Annotated[int | None, typer.Option("--burst", min=1, help="So many at once.")]
MaxInHand = Annotated[int | None, typer.Option("--max-in-hand", min=1, help="With workers at a time.")]
WithBreaker = Annotated[bool, typer.Option("--breaker", help="Leave it in peace for a while when its attempts fail.")]
Adapted = Annotated[
    str | None, typer.Option("--adaptive", metavar="LOW-HIGH", help="With workers at a time, found out: 2-100.")
]
AdaptiveTarget = Annotated[
    str | None, typer.Option("--adaptive-target", metavar="SPAN", help="So long nine of ten attempts may take.")
]
KeyRate = Annotated[str | None, typer.Option("--key-rate", metavar="N/TIME", help="Starts of each limit key.")]
KeyMaxInHand = Annotated[int | None, typer.Option("--key-max-in-hand", min=1, help="Of each limit key at a time.")]
KeyShare = Annotated[
    float | None, typer.Option("--key-share", help="Of one limit key; default 0.5, in a cluster none.")
]
OverriddenKeys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY=LIMIT", help="Of one limit key: acme=20, 30/m, any or default; again."),
]
WeighedKeys = Annotated[
    list[str] | None, typer.Option("--key-weight", metavar="KEY=N", help="Turns of one limit key, as acme=3; again.")
]
Cleared = Annotated[
    list[str] | None, typer.Option("--clear", metavar="WHAT", help=f"Takes it away: {', '.join(CLEARED)}; again.")
]
Listed = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME", help="A limit that it shares; again for more. These and no others."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="It resumes by itself then.")]


async def list_queues(call: CommandCall) -> None:
    """List the queues that have, or had, rules."""
    client = await call.connect()
    made = _record if call.out.form in (Form.JSON, Form.NAME) else _row
    call.out.many([made(each) async for each in client.queues.list()], _COLUMNS, "No queue has rules.")


async def show(call: CommandCall, queue: RuledQueue) -> None:
    """Show the rules of a queue."""
    client = await call.connect()
    found = await client.queues.get(queue)
    record = _record(found)
    until = shown_twice(found.until) if found.until is not None else ""
    texts = {"limits": ", ".join(found.limits), "adaptive": adaptive_text(found)}
    keys = {"limit keys": keys_text(found), "overrides": overrides_text(found.keys.overrides if found.keys else {})}
    shows = {name: value for name, value in record.items() if name != "keys"}
    call.out.details(record, {**shows, "until": until, **texts, **keys})


async def pause(
    call: CommandCall, queue: RuledQueue, note: Note = "", until: Until = None, revision: IfRevision = 0
) -> None:
    """Send nothing of a queue to workers; it goes on taking tasks in."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    _tell(call, await client.queues.pause(queue, note=note, until=end, revision=revision), "sends nothing")


async def drain(
    call: CommandCall, queue: RuledQueue, note: Note = "", until: Until = None, revision: IfRevision = 0
) -> None:
    """Take no tasks in; what the queue has is sent."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    _tell(call, await client.queues.drain(queue, note=note, until=end, revision=revision), "takes nothing in")


async def stop(
    call: CommandCall, queue: RuledQueue, note: Note = "", until: Until = None, revision: IfRevision = 0
) -> None:
    """Take no tasks in, and send none."""
    end = parse_moment(until) if until is not None else None
    client = await call.connect()
    _tell(call, await client.queues.stop(queue, note=note, until=end, revision=revision), "takes and sends nothing")


async def put(
    call: CommandCall,
    queue: RuledQueue,
    rate: Rate = None,
    burst: Burst = None,
    max_in_hand: MaxInHand = None,
    limit: Listed = None,
    breaker: WithBreaker = False,
    adaptive: Adapted = None,
    adaptive_target: AdaptiveTarget = None,
    key_rate: KeyRate = None,
    key_max_in_hand: KeyMaxInHand = None,
    key_share: KeyShare = None,
    key: OverriddenKeys = None,
    key_weight: WeighedKeys = None,
    ordering: Annotated[
        str | None, typer.Option("--ordering", metavar="hold|halt|pass", help="Of ordering keys, when a task fails.")
    ] = None,
    order: Annotated[
        str | None, typer.Option("--order", metavar="aged|edf", help="Of due tasks; edf: earliest deadline first.")
    ] = None,
    clear: Cleared = None,
    no_limit: Annotated[bool, typer.Option("--no-limit", help="Take all its limits away, and its breaker.")] = False,
    revision: IfRevision = 0,
) -> None:
    """Limit a queue; what is not named stays as it is.

    timerd queues set charges --rate 100/s --burst 20 --max-in-hand 50

    timerd queues set charges --limit stripe --breaker

    timerd queues set charges --clear rate --clear breaker

    timerd queues set exports --adaptive 2-100 --adaptive-target 30s

    timerd queues set mail --key-max-in-hand 4 --key-share 0.2 --key acme=20 --key-weight acme=3
    """
    changes = {
        **{"rate": rate, "burst": burst, "max_in_hand": max_in_hand, "limits": limit, "breaker": breaker or None},
        **{"key_rate": key_rate, "key_max_in_hand": key_max_in_hand, "key_share": key_share, "ordering": ordering},
        **{"order": order, "adaptive": adaptive_of(adaptive, adaptive_target)},
        **{"key_limits": key_limits(key or ()) or None, "key_weights": key_weights(key_weight or ()) or None},
    }
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    cleared = _cleared(given, clear or (), no_limit)
    client = await call.connect()
    found = await client.queues.update(queue, **given, clear=cleared, revision=revision)
    call.out.one(_record(found), f"{found.name} {_limits_shown(found)}.")


def _cleared(given: Mapping[str, object], clear: Sequence[str], no_limit: bool) -> Sequence[str]:
    """Raises WrongInput."""
    if no_limit and (given or clear):
        raise WrongInput("--no-limit takes all limits away: give it alone, or leave it out.")
    unknown = [each for each in clear if each not in CLEARED]
    if unknown:
        raise WrongInput(f"--clear names {unknown[0]!r:.60}: use {', '.join(CLEARED)}.")
    both = [each for each in clear if _called(each) in given]
    if both:
        raise WrongInput(f"--clear takes {both[0]} away, and --{both[0]} gives it: leave one of them out.")
    if not (given or clear or no_limit):
        raise WrongInput(
            "Say how the queue is limited: --rate, --burst, --max-in-hand, --limit, --breaker, --adaptive, --ordering, "
            "--order or what its limit keys may (--key-rate, --key-max-in-hand, --key-share, --key, --key-weight); "
            "--clear takes one of these away, --no-limit all."
        )
    return list(map(_called, ALL_LIMITS if no_limit else clear))


def _called(option: str) -> str:
    name = option.replace("-", "_")
    return _CALLED.get(name, name)


async def resume(call: CommandCall, queue: RuledQueue, revision: IfRevision = 0) -> None:
    """Take tasks in and send them."""
    client = await call.connect()
    _tell(call, await client.queues.resume(queue, revision=revision), "takes in and sends")


def _tell(call: CommandCall, queue: QueueInfo, does: str) -> None:
    end = f" until {shown(queue.until)}" if queue.until is not None else ""
    sentence = f"{queue.name} is {queue.mode.name}{end}: it {does}."
    if queue.silent:
        sentence = (
            f"{queue.name} will be {queue.mode.name}{end}: PENDING, for these have not confirmed it: "
            f"{', '.join(queue.silent)}. They read it within 10 s; repeat the command to see."
        )
    call.out.one({**_record(queue), "silent": list(queue.silent)}, sentence)


def _limits_shown(queue: QueueInfo) -> str:
    own = limit_shown(queue.limit) if queue.limit is not None else ""
    shared = f"goes by {', '.join(queue.limits)}" if queue.limits else ""
    broken = "has a breaker" if queue.breaker is not None else ""
    adapted = f"finds out how many it sends at a time: {adaptive_text(queue)}" if queue.adaptive is not None else ""
    keyed = f"goes by limit keys: {keys_shown(queue.keys)}" if queue.keys is not None else ""
    limited = ", and ".join(part for part in (own, shared, broken, adapted, keyed) if part) or "has no limit"
    ordering = queue.ordering.name
    by_key = "" if ordering == "HOLD" else f", and its ordering keys go by {ordering}"
    return f"{limited}{by_key}{', and it goes by deadlines' if queue.order.name == 'EDF' else ''}"


def _record(queue: QueueInfo) -> OutputRecord:
    return {
        "queue": queue.name,
        "namespace": queue.namespace,
        "mode": queue.mode.name,
        "until": iso_of(queue.until) if queue.until is not None else None,
        "note": queue.note,
        "revision": queue.revision,
        **limit_record(queue.limit),
        "limits": list(queue.limits),
        "keys": keys_record(queue.keys),
        "breaker": queue.breaker.name if queue.breaker is not None else None,
        "breaker_until": iso_of(queue.breaker_until) if queue.breaker_until is not None else None,
        "adaptive": adaptive_record(queue),
        "ordering": queue.ordering.name,
        "order": queue.order.name,
        "held_until": iso_of(queue.held_until) if queue.held_until is not None else None,
    }


def _row(queue: QueueInfo) -> OutputRecord:
    """Of a table: what goes without saying is left out."""
    ordering = "" if queue.ordering.name == "HOLD" else queue.ordering.name
    return {**_record(queue), "ordering": ordering, "keys": keys_text(queue), "adaptive": adaptive_text(queue)}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Pause queues, and what other rules they have.", no_args_is_help=True)
    group.command("list")(listing(list_queues))
    group.command()(listing(show))
    group.command("set")(online(put))
    for command in (pause, resume, drain, stop):
        group.command()(online(command))
    app.add_typer(group, name="queues")
