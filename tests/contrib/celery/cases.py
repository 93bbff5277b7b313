"""Cases of Celery's canvas in which something is for later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from datetime import timezone as zone
from typing import Any, NamedTuple

from celery import Celery, chain, chord, group, signature

SOON_S = 1
INDIA = zone(timedelta(hours=5, minutes=30))


class Case(NamedTuple):
    """`later`: how many of its tasks wait in timerd, as far as their ids are known to the caller."""

    begin: Callable[[Tasks], Any]
    later: int = 1


class Tasks:
    """The tasks of an application by their short names."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a task
        return self.app.tasks[f"shop.{name}"]


def at() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=SOON_S)


def soon(sig: Any) -> Any:  # noqa: ANN401 - a signature
    return sig.set(countdown=SOON_S)


SOON: Mapping[str, Any] = {"countdown": SOON_S}


def _with_producer(tasks: Tasks) -> Any:  # noqa: ANN401 - a result
    with tasks.app.producer_pool.acquire(block=True) as producer:
        return tasks.add.apply_async((1, 2), producer=producer, **SOON)


def _with_connection(tasks: Tasks) -> Any:  # noqa: ANN401 - a result
    with tasks.app.connection_for_write() as connection:
        return tasks.add.apply_async((1, 2), connection=connection, **SOON)


def _skewed(tasks: Tasks) -> Any:  # noqa: ANN401 - a result
    return group(tasks.add.s(n, n) for n in range(3)).skew(start=1, stop=2, step=0.3).delay()


def _fan(tasks: Tasks) -> Any:  # noqa: ANN401 - a result
    return (tasks.add.s(1, 2) | group(soon(tasks.add.s(1)), soon(tasks.add.s(2)))).delay()


def _stamped(tasks: Tasks) -> Any:  # noqa: ANN401 - a result
    sig = tasks.request.s("stamps")
    sig.stamp(customer="ada")
    return sig.apply_async(**SOON)


CASES: dict[str, Case] = {
    "countdown": Case(lambda t: t.add.apply_async((1, 2), **SOON)),
    "eta in UTC": Case(lambda t: t.add.apply_async((1, 2), eta=at())),
    "eta in another zone": Case(lambda t: t.add.apply_async((1, 2), eta=at().astimezone(INDIA))),
    "eta without a zone is UTC": Case(lambda t: t.add.apply_async((1, 2), eta=at().replace(tzinfo=None))),
    "eta as a text": Case(lambda t: t.add.apply_async((1, 2), eta=at().isoformat())),
    "eta that has passed": Case(lambda t: t.add.apply_async((1, 2), eta=at() - timedelta(days=1)), later=0),
    "at once": Case(lambda t: t.add.delay(1, 2), later=0),
    "by name": Case(lambda t: t.app.send_task("shop.add", (1, 2), **SOON)),
    "by name and position": Case(lambda t: t.app.send_task("shop.add", (1,), {"other": 2}, SOON_S)),
    "a producer of the caller's": Case(_with_producer),
    "a connection of the caller's": Case(_with_connection),
    "a signature": Case(lambda t: t.add.s(1, 2).apply_async(**SOON)),
    "a signature with a countdown": Case(lambda t: soon(t.add.s(1, 2)).delay()),
    "a signature from JSON": Case(lambda t: signature(dict(soon(t.add.s(1, 2))), app=t.app).delay()),
    "a partial signature": Case(lambda t: soon(t.add.s(2)).delay(1)),
    "an immutable signature": Case(lambda t: soon(t.add.si(1, 2)).delay()),
    "a clone": Case(lambda t: t.add.s(1, 2).clone(countdown=SOON_S).delay()),
    "a map": Case(lambda t: t.total.map([[1, 2], [3]]).apply_async(**SOON)),
    "a starmap": Case(lambda t: t.add.starmap([(1, 2), (3, 4)]).apply_async(**SOON)),
    "chunks": Case(lambda t: t.add.chunks([(1, 2), (3, 4), (5, 6)], 2).apply_async(**SOON), later=2),
    "a chain": Case(lambda t: chain(t.add.s(1, 2), t.add.s(3)).apply_async(**SOON)),
    "a chain with a pause in it": Case(lambda t: (t.add.s(1, 2) | soon(t.add.s(3)) | t.add.s(4)).delay()),
    "a chain with a pause before each": Case(lambda t: chain(soon(t.add.s(1)), *[soon(t.add.s(1))] * 2).delay(), 3),
    "a chain whose first task fails": Case(lambda t: (soon(t.fail.s("why")) | t.add.s(3)).delay()),
    "a group": Case(lambda t: group(t.add.s(n, n) for n in range(3)).apply_async(**SOON), later=3),
    "a group of delayed tasks": Case(lambda t: group(soon(t.add.s(n, n)) for n in range(3)).delay(), later=3),
    "a group, one after the other": Case(_skewed, later=3),
    "a group within a group": Case(lambda t: group(t.add.s(1, 2), group(soon(t.add.s(3, 4)))).delay()),
    "a group at the end of a chain": Case(_fan, later=2),
    "a chord with delayed tasks": Case(lambda t: chord([soon(t.add.s(n, n)) for n in range(3)])(t.total.s()), 3),
    "a chord with a delayed body": Case(lambda t: chord([t.add.s(n, n) for n in range(3)])(soon(t.total.s()))),
    "a delayed chord": Case(lambda t: chord([t.add.s(1, 1)] * 2, t.total.s()).apply_async(**SOON), later=2),
    "a chord made of a chain": Case(lambda t: (group(soon(t.add.s(n, 1)) for n in (1, 2)) | t.total.s()).delay(), 2),
    "a chord of chains": Case(lambda t: chord([t.add.s(1, 1) | soon(t.add.s(1))] * 2)(t.total.s()), later=2),
    "a chord of which a task fails": Case(lambda t: chord([soon(t.fail.s("why")), t.add.s(1)])(t.total.s())),
    "a callback": Case(lambda t: t.add.apply_async((1, 2), link=t.add.s(3), **SOON)),
    "a delayed callback": Case(lambda t: t.add.apply_async((1, 2), link=soon(t.add.s(3)))),
    "a callback of an error": Case(lambda t: t.fail.apply_async(("why",), link_error=t.note.si(), **SOON)),
    "a retry with a countdown": Case(lambda t: t.again.delay(2, countdown=SOON_S)),
    "a retry with an eta": Case(lambda t: t.again.apply_async((1,), {"eta": at()})),
    "a retry by its default": Case(lambda t: t.again.delay(1)),
    "a retry of what was delayed": Case(lambda t: t.again.apply_async((1,), **SOON)),
    "one retry too many": Case(lambda t: t.again.delay(3, countdown=SOON_S)),
    "retries by themselves": Case(lambda t: t.stubborn.delay()),
    "a task that replaces itself": Case(lambda t: t.replaced.delay()),
    "expires later": Case(lambda t: t.add.apply_async((1, 2), expires=60, **SOON)),
    "expires before": Case(lambda t: t.add.apply_async((1, 2), expires=0.2, **SOON)),
    "a queue": Case(lambda t: t.request.apply_async(("delivery_info",), queue="express", **SOON)),
    "a route of the settings": Case(lambda t: t.routed.apply_async(**SOON)),
    "a priority": Case(lambda t: t.request.apply_async(("delivery_info",), priority=3, **SOON)),
    "headers": Case(lambda t: t.request.apply_async(("tenant",), headers={"tenant": "blue"}, **SOON)),
    "stamps": Case(_stamped),
    "YAML": Case(lambda t: t.total.apply_async(([1, 2],), serializer="yaml", **SOON)),
    "compression": Case(lambda t: t.add.apply_async((1, 2), compression="gzip", **SOON)),
    "limits of time": Case(lambda t: t.request.apply_async(("timelimit",), time_limit=60, **SOON)),
    "a shadow": Case(lambda t: t.request.apply_async(("shadow",), shadow="plus", **SOON)),
    "a task that fails": Case(lambda t: t.fail.apply_async(("why",), **SOON)),
    "an id of the caller's": Case(lambda t: t.request.apply_async(("id",), task_id="order-17", **SOON)),
}  # fmt: skip
