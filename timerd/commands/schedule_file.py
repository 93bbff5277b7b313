"""`timerd schedules create --file`: a schedule a line, each an object of JSON that says what the options say of one."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from timerd.commands.call import CommandCall
from timerd.commands.failures import CommandFailure, WrongInput, failure_of
from timerd.commands.input_lines import InputLines
from timerd.commands.output import OutputRecord
from timerd.commands.times import parse_instant, parse_span
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.client import NewSchedule, ScheduleResult, TaskOptions


def _span(value: object) -> object:
    return parse_span(value) if isinstance(value, str) else value


def _instant(value: object) -> object:
    return parse_instant(value) if isinstance(value, str) else value


def _as_is(value: object) -> object:
    return value


# What `options` may say.
_TASK_FIELDS: Mapping[str, Callable[[object], object]] = {
    **dict.fromkeys(("labels", "content_type", "priority", "limit_key", "on_end", "on_demand"), _as_is),
    **dict.fromkeys(("expire_after", "soft_expire_after", "keep_result", "stall_timeout"), _span),
}
_RETRY_FIELDS: Mapping[str, Callable[[object], object]] = {
    **dict.fromkeys(("max_attempts", "multiplier", "jitter"), _as_is),
    **dict.fromkeys(("initial_backoff", "max_backoff", "attempt_timeout"), _span),
}


def _options(value: object) -> TaskOptions:
    """Of its tasks, by the names of TaskOptions. Raises WrongInput."""
    from timerd.client import RetryPolicy, TaskOptions

    given = dict(_object(value, "options"))
    retry = given.pop("retry", None)
    fields: Any = _read(given, "options", _TASK_FIELDS)
    if retry is not None:
        policy: Any = _read(_object(retry, "options.retry"), "options.retry", _RETRY_FIELDS)
        fields["retry"] = RetryPolicy(**policy)
    return TaskOptions(**fields)


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise WrongInput(f'{name} is {value!r}: give an object, as {{"priority": 3}}.')
    return value


def _read(
    given: Mapping[str, object], name: str, fields: Mapping[str, Callable[[object], object]]
) -> dict[str, object]:
    if unknown := sorted(given.keys() - fields.keys()):
        raise WrongInput(f"{name} has {unknown[0]!r}, which is unknown: allowed are {', '.join(fields)}.")
    return {field: fields[field](value) for field, value in given.items()}


# What a line may say -> how it is read.
_FIELDS: Mapping[str, Callable[[object], object]] = {
    **dict.fromkeys(("schedule_id", "queue", "payload", "payload_base64", "labels"), _as_is),
    **dict.fromkeys(("cron", "at", "rrule", "zone", "gap", "repeat", "jitter_kind"), _as_is),
    **dict.fromkeys(("exclude_dates", "exclude_cron"), _as_is),
    **dict.fromkeys(("catch_up", "max_count", "overlap", "pause_on_dead"), _as_is),
    **dict.fromkeys(("every", "fixed_delay", "jitter", "catch_up_window"), _span),
    **dict.fromkeys(("start", "end"), _instant),
    "options": _options,
}


async def create_from(call: CommandCall, file: Path, *, is_update: bool) -> None:
    """Raises Failure at the end where some were refused."""
    from timerd.client import TimerdError

    lines = InputLines(file)
    client = await call.connect()
    created = refused = 0
    call.bar.begin(f"reading {lines.name}", lines.size_bytes)
    async for batch in lines.batches():
        numbered = [(lines.count + number, line) for number, line in enumerate(batch, 1) if line.strip()]
        new = [_new(f"{lines.name}, line {number}", line, is_update=is_update) for number, line in numbered]
        try:
            results = await client.schedules.create_many(new)
        except TimerdError as error:
            failure = failure_of(error, call.endpoint.server)
            raise type(failure)(str(failure) + lines.stored) from error
        for result in results:
            _tell(call, result)
        refused += sum(each.error is not None for each in results)
        created += len(results)
        call.bar.begin(f"creating, {created:,} done", lines.size_bytes)
        call.bar.reach(lines.read_bytes)
    if not created:
        raise WrongInput(f"{lines.name} is empty: nothing was created. Each of its lines would be a schedule.")
    if refused:
        raise CommandFailure(f"{refused:,} of {counted(created, 'schedule', 'were')} refused; the others are there.")
    call.out.say(f"{counted(created, 'schedule', 'are')} there.")


def _tell(call: CommandCall, result: ScheduleResult) -> None:
    if call.out.as_json:
        call.out.line(_record(result), "")
    elif result.error is not None:
        call.out.say(f"{result.id}: {result.error}")


def _record(result: ScheduleResult) -> OutputRecord:
    error = str(result.error) if result.error is not None else ""
    return {"schedule_id": result.id, "revision": result.revision, "error": error}


def _new(where: str, line: bytes, *, is_update: bool) -> NewSchedule:
    """Raises WrongInput."""
    from timerd.client import NewSchedule, TimerdError

    try:
        given: Any = json.loads(line)
    except ValueError as error:
        raise WrongInput(f"{where} is no JSON: {error}. A line is an object, as {_EXAMPLE}.") from error
    if not isinstance(given, dict) or not {"schedule_id", "queue"} <= given.keys():
        raise WrongInput(f"{where} needs an object with schedule_id and queue, as {_EXAMPLE}.")
    if unknown := sorted(given.keys() - _FIELDS.keys()):
        raise WrongInput(f"{where} has {unknown[0]!r}, which is unknown: allowed are {', '.join(_FIELDS)}.")
    try:
        read = {name: _FIELDS[name](value) for name, value in given.items()}
        if "payload_base64" in read:
            read["payload"] = base64.b64decode(str(read.pop("payload_base64")), validate=True)
        on_conflict = "update" if is_update else "reject"
        return NewSchedule(str(read.pop("schedule_id")), on_conflict=on_conflict, **read)  # type: ignore[arg-type]
    except (TimerdError, WrongInput, TypeError, ValueError) as error:
        raise WrongInput(f"{where}: {error}") from error


_EXAMPLE = '{"schedule_id": "report", "queue": "mails", "cron": "0 9 * * *"}'
