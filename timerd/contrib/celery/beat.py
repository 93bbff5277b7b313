"""The schedule of Celery's beat, brought into timerd: each entry becomes a schedule, and no beat process is needed.

What is stored is the message that Celery would publish now. The publisher gives it an id of its own at each instant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import Any, NamedTuple, Unpack

from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import crontab
from kombu.exceptions import EncodeError

from timerd.client import ClientKeywords, ConnectOptions, RetryPolicy, SyncClient, TaskOptions
from timerd.contrib.celery.beat_times import NotImported, spec_of
from timerd.contrib.celery.catching import CatchingProducer
from timerd.contrib.celery.installing import DEFAULT_QUEUE
from timerd.contrib.celery.messages import CONTENT_TYPE, EachRun, Message
from timerd.sdk.scheduling import NewSchedule
from timerd.sdk.transport import connect_options
from timerd.sdk.values import name

_PREFIX = "celery-beat/"
_LABEL = "celery-beat"
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._/:-]+")
_MOST_ID_CHARS = 100
_RETRY = RetryPolicy(max_attempts=20_000, initial_backoff=1, multiplier=2, max_backoff=60)
_OF_CELERY = "celery.backend_cleanup"


class Imported(NamedTuple):
    """What became of the entries.

    Args:
        schedules: entry -> the id of its schedule, of those that timerd has.
        refused: entry -> why it has none, a sentence.
        gone: ids of schedules of an earlier import whose entry is there no more.
        deleted: whether these were deleted.
    """

    schedules: Mapping[str, str]
    refused: Mapping[str, str]
    gone: tuple[str, ...]
    deleted: bool


def import_beat(
    app: Celery,
    target: str | ConnectOptions = "127.0.0.1:7400",
    *,
    entries: Mapping[str, Any] | None = None,
    queue: str = DEFAULT_QUEUE,
    delete_gone: bool = False,
    **options: Unpack[ClientKeywords],
) -> Imported:
    """The call makes a schedule of each entry of `app.conf.beat_schedule`, or brings it up to date.

    It may be repeated, at each deployment for example: what is as it was stays untouched. Schedules of entries that are
    gone are named in the answer, and deleted where that is asked for.

    Args:
        app: the application.
        target: the address of timerd as HOST:PORT, or a `ConnectOptions`. Default 127.0.0.1:7400.
        entries: name -> an entry, as a dict or a `celery.beat.ScheduleEntry`, in place of `app.conf.beat_schedule`.
        queue: the queue of timerd in which messages wait for the publisher. Default "celery".
        delete_gone: whether schedules of entries that are gone are deleted. Default not.
        options: the other fields of `ConnectOptions` as keywords.

    Raises:
        InvalidTask: an option is of a wrong form.
        TimerdError: timerd was not reached, or refused.
    """
    connection = connect_options("import_beat", target, options, ClientKeywords.__optional_keys__)
    found = _entries_of(app) if entries is None else dict(entries)
    made: dict[str, NewSchedule] = {}
    refused: dict[str, str] = {}
    for entry_name, entry in found.items():
        try:
            made[entry_name] = _schedule_of(app, _entry(app, entry_name, entry), name(queue, "queue"))
        except (EncodeError, NotImported, TypeError, ValueError) as why:
            refused[entry_name] = f"{entry_name!r} is not imported: {why}."
    with SyncClient(connection) as client:
        results = client.schedules.create_many(made.values())
        for entry_name, result in zip(made, results, strict=True):
            if result.error is not None:
                refused[entry_name] = f"{entry_name!r} is not imported: {result.error}"
        keep = [id_of(each) for each in found]
        gone = client.schedules.prune(labels=_labels(app), keep=keep, force=delete_gone)
    schedules = {each: id_of(each) for each in made if each not in refused}
    return Imported(schedules, refused, gone.ids, delete_gone)


def id_of(entry_name: str) -> str:
    """The id of the schedule of an entry: its name, as far as an id can have it.

    Args:
        entry_name: the name in `beat_schedule`.
    """
    plain = _NOT_IN_IDS.sub("-", entry_name)[:_MOST_ID_CHARS]
    digest = blake2b(entry_name.encode(), digest_size=4).hexdigest()
    return _PREFIX + (plain if plain == entry_name else f"{plain}-{digest}")


def _labels(app: Celery) -> dict[str, str]:
    return {_LABEL: app.main or "app"}


def _entries_of(app: Celery) -> dict[str, Any]:
    """With what beat adds by itself: results of a backend that does not let them expire."""
    entries = dict(app.conf.beat_schedule)
    if app.conf.result_expires and not app.backend.supports_autoexpire:
        cleanup = {"task": _OF_CELERY, "schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
        entries.setdefault(_OF_CELERY, cleanup)
    return entries


def _entry(app: Celery, entry_name: str, given: Any) -> Any:  # noqa: ANN401 - Celery has no types
    return given if isinstance(given, ScheduleEntry) else ScheduleEntry(**dict(given, name=entry_name, app=app))


def _schedule_of(app: Celery, entry: Any, queue: str) -> NewSchedule:  # noqa: ANN401 - Celery has no types
    when = spec_of(entry.schedule)
    options = dict(entry.options)
    if "eta" in options or "countdown" in options:
        raise NotImported("its options have an eta or a countdown, and a schedule says itself when it comes")
    if any(isinstance(each, BeatLazyFunc) for each in (*(entry.args or ()), *(entry.kwargs or {}).values())):
        raise NotImported("its arguments are computed by beat at each run: let the task compute them")
    expires = options.get("expires")
    if isinstance(expires, timedelta):
        expires = expires.total_seconds()
    if isinstance(expires, int | float):
        del options["expires"]
    again = EachRun(float(expires) if isinstance(expires, int | float) else None)
    message = _caught(app, entry, options)._replace(again=again)
    return NewSchedule(
        id_of(entry.name),
        queue=queue,
        payload=message.to_bytes(),
        labels=_labels(app),
        on_conflict="update",
        options=TaskOptions(labels={"task": entry.task[:256]}, content_type=CONTENT_TYPE, retry=_RETRY),
        **when,
    )


def _caught(app: Celery, entry: Any, options: dict[str, Any]) -> Message:  # noqa: ANN401 - Celery has no types
    """What Celery would publish, by the way that beat goes."""
    found: list[Message] = []
    options["headers"] = {**options.get("headers", {}), "celery_beat_task": True}
    options["task_id"] = f"{_PREFIX}{entry.name}"
    task = app.tasks.get(entry.task)
    is_ignored = options.get("ignore_result", task.ignore_result if task is not None else None)
    # Else Celery begins to wait for its result.
    options["ignore_result"] = True
    with app.producer_or_acquire(None) as real:
        producer = CatchingProducer(real, found.append)
        if task is not None:
            task.apply_async(entry.args, entry.kwargs, producer=producer, **options)
        else:
            app.send_task(entry.task, entry.args, entry.kwargs, producer=producer, **options)
    if not found:
        raise NotImported("Celery published nothing for it: `task_always_eager` is for tests")
    return _the_same_each_time(found[0], ignore_result=is_ignored)


def _the_same_each_time(message: Message, **headers: Any) -> Message:  # noqa: ANN401 - as Celery's
    """Without what tells of this process, so that an import that changes nothing is known as such."""
    given = message.publish["headers"]
    if "id" not in given:
        raise NotImported("its message has the id within its body: set `task_protocol` to 2")
    publish = {name: value for name, value in message.publish.items() if name != "reply_to"}
    return message._replace(publish=publish | {"headers": given | {"origin": _LABEL} | headers})
