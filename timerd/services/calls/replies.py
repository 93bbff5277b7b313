"""Values -> wire: what became of tasks, and how they look.

A batch that was stored whole is answered by its Placement alone: ids need not travel, because the caller can compose
them (architecture, "Identity").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.model.attempts import FailedAttempt, attempts_of
from timerd.model.errors import NotFound, NotStored
from timerd.model.identity import TaskId, encode_id
from timerd.model.partition import BUCKET_MS
from timerd.model.task import RetryPolicy, Template
from timerd.ports import DeadLetter
from timerd.services.calls.progress import progress_message
from timerd.services.calls.requests import Draft
from timerd.services.engine.placed_ids import PlacedIds
from timerd.services.engine.verbs import State, StoredTasks, TaskView
from timerd.services.transport.slices import in_slices
from timerd.services.transport.status import problem_of
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

STORED = task_wire.ITEM_OUTCOME_STORED
NOT_STORED = task_wire.ITEM_OUTCOME_NOT_STORED
KEPT = task_wire.ITEM_OUTCOME_KEPT
NOTHING_STORED = StoredTasks((), {}, {})


def timestamp(at_ms: int) -> Timestamp:
    return Timestamp(seconds=at_ms // 1000, nanos=at_ms % 1000 * 1_000_000)


def optional_timestamp(at_ms: int) -> Timestamp | None:
    return timestamp(at_ms) if at_ms else None


def duration(span_ms: int) -> Duration:
    return Duration(seconds=span_ms // 1000, nanos=span_ms % 1000 * 1_000_000)


@lru_cache(maxsize=256)
def wire_of_template(template: Template) -> task_wire.TaskTemplate:
    """All that its tasks have, so that who reads it may send it back. To be copied: many have the same few."""
    out = task_wire.TaskTemplate(
        queue=template.queue,
        labels=dict(template.labels),
        content_type=template.content_type,
        priority=template.priority,
        retry=retry_policy(template.retry),
        traceparent=template.traceparent,
        limit_key=template.limit_key,
        on_end=template.on_end,
        on_demand=template.on_demand,
    )
    for name in ("expire_after", "soft_expire_after", "keep_result", "stall_timeout"):
        if span_ms := getattr(template, f"{name}_ms"):
            getattr(out, name).CopyFrom(duration(span_ms))
    return out


# --- schedule ------------------------------------------------------------------------------------------------------


def schedule_reply(draft: Draft, stored: StoredTasks, kept_fire_ms: Mapping[int, int]) -> wire.ScheduleResponse:
    """Of a batch of one. Raises what it was refused for."""
    if stored.refused:
        raise stored.refused[0]
    if 0 in stored.kept:
        fire_time = optional_timestamp(kept_fire_ms.get(0, 0))
        return wire.ScheduleResponse(task_id=str(stored.kept[0]), fire_time=fire_time, outcome=KEPT)
    fire_at_ms = int(draft.tasks.rows.columns["fire_at_ms"][0])
    return wire.ScheduleResponse(task_id=str(stored.task_ids[0]), fire_time=timestamp(fire_at_ms), outcome=STORED)


def plain_reply(task_id: str, fire_at_ms: int) -> wire.ScheduleResponse:
    """As `schedule_reply`, of a task that was stored."""
    return wire.ScheduleResponse(task_id=task_id, fire_time=timestamp(fire_at_ms), outcome=STORED)


async def batch_reply(draft: Draft, stored: StoredTasks, kept_fire_ms: Mapping[int, int]) -> wire.ScheduleBatchResponse:
    ids = stored.task_ids
    count = len(ids) - len(stored.kept) - len(stored.refused)
    whole = draft.as_columns and not (draft.problems or stored.refused or stored.kept)
    if not whole or not isinstance(ids, PlacedIds) or not ids.is_uniform:
        return wire.ScheduleBatchResponse(stored=count, results=await _results(draft, stored, kept_fire_ms))
    reply = wire.ScheduleBatchResponse(stored=count, placement=placement(draft, ids))
    if draft.gave_delays:
        reply.fire_at_ms.extend(draft.tasks.rows.columns["fire_at_ms"].tolist())
    return reply


def placement(draft: Draft, task_ids: PlacedIds) -> wire.Placement:
    """All of one template, so of one scope and priority; shard and mac are the same within a bucket."""
    positions, rows = task_ids.positions_ms, draft.tasks.rows
    moved = positions.tobytes() != rows.columns["fire_at_ms"].tobytes()
    shards, macs = task_ids.homes()
    template = rows.template_of(0)
    return wire.Placement(
        prefix=draft.tasks.prefix,
        scope=template.scope,
        priority=template.priority,
        bucket_length_ms=BUCKET_MS,
        bucket_start_ms=shards.keys(),
        shards=shards.values(),
        macs=macs,
        position_ms=positions.tolist() if moved else (),
    )


async def _results(draft: Draft, stored: StoredTasks, kept_fire_ms: Mapping[int, int]) -> list[wire.ItemResult]:
    """One per item, in the order of the request."""
    columns = draft.tasks.rows.columns
    results = [_not_stored(index, problem) for index, problem in draft.problems.items()]
    places = list(zip(columns["index"].tolist(), columns["fire_at_ms"].tolist(), strict=True))
    async for row, (index, fire_at_ms) in in_slices(places):
        if row in stored.refused:
            results.append(_not_stored(index, stored.refused[row]))
        elif row in stored.kept:
            fire_time = optional_timestamp(kept_fire_ms.get(row, 0))
            kept = str(stored.kept[row])
            results.append(wire.ItemResult(index=index, outcome=KEPT, task_id=kept, fire_time=fire_time))
        else:
            results.append(_stored(index, stored.task_ids[row], fire_at_ms))
    if draft.problems:
        results.sort(key=lambda result: result.index)
    return results


def _stored(index: int, task: TaskId, fire_at_ms: int) -> wire.ItemResult:
    return wire.ItemResult(index=index, outcome=STORED, task_id=str(task), fire_time=timestamp(fire_at_ms))


def _not_stored(index: int, error: NotStored) -> wire.ItemResult:
    return wire.ItemResult(index=index, outcome=NOT_STORED, problem=problem_of(error))


# --- tasks ---------------------------------------------------------------------------------------------------------


def task_of(namespace: str, view: TaskView) -> task_wire.Task:
    """FINISHED tasks have no template any more: then only id, time and state are known."""
    task = task_wire.Task(
        task_id=str(view.task_id),
        namespace=namespace,
        fire_time=timestamp(view.fire_at_ms),
        due_time=timestamp(view.due_at_ms),
        state=_state(view.state),
        payload=view.payload,
        key=view.key,
        attempt=view.attempt,
        last_error=view.last_error,
        ordering_key=view.ordering_key,
        is_cancelling=view.is_cancelling,
    )
    if view.progress:
        task.progress.CopyFrom(progress_message(view.progress))
    if view.template is not None:
        _describe(task, view.template, view.fire_at_ms)
    return task


def _state(state: State) -> task_wire.TaskState:
    return cast(task_wire.TaskState, state.value)


def _describe(task: task_wire.Task, template: Template, fire_at_ms: int) -> None:
    task.queue = template.queue
    task.content_type = template.content_type
    task.priority = template.priority
    task.traceparent = template.traceparent
    task.limit_key = template.limit_key
    task.on_end = template.on_end
    task.on_demand = template.on_demand
    if template.keep_result_ms:
        task.keep_result.CopyFrom(duration(template.keep_result_ms))
    if template.stall_timeout_ms:
        task.stall_timeout.CopyFrom(duration(template.stall_timeout_ms))
    for name, value in template.labels:
        task.labels[name] = value
    task.retry.CopyFrom(retry_policy(template.retry))
    if expiry_ms := template.expiry_ms(fire_at_ms):
        task.expire_time.CopyFrom(timestamp(expiry_ms))
    if soft_expiry_ms := template.soft_expiry_ms(fire_at_ms):
        task.soft_expire_time.CopyFrom(timestamp(soft_expiry_ms))


def retry_policy(retry: RetryPolicy) -> task_wire.RetryPolicy:
    """As it would have to be sent to get the same: no jitter is written as a negative one."""
    return task_wire.RetryPolicy(
        max_attempts=retry.max_attempts,
        initial_backoff=duration(retry.initial_backoff_ms),
        multiplier=retry.multiplier,
        max_backoff=duration(retry.max_backoff_ms),
        jitter=retry.jitter or -1.0,
        attempt_timeout=duration(retry.attempt_timeout_ms),
    )


def history_of(history: str) -> list[task_wire.Attempt]:
    return [_attempt_of(each) for each in attempts_of(history)]


def _attempt_of(attempt: FailedAttempt) -> task_wire.Attempt:
    return task_wire.Attempt(
        attempt=attempt.number,
        send_time=optional_timestamp(attempt.sent_ms),
        end_time=timestamp(attempt.ended_ms),
        end=cast(task_wire.AttemptEnd, attempt.end),
        worker=attempt.worker,
        error=attempt.error,
    )


def dead_letter_of(letter: DeadLetter) -> wire.DeadLetter:
    task = task_wire.Task(
        task_id=encode_id(letter.task_id),
        namespace=letter.template.namespace,
        fire_time=timestamp(letter.fire_at_ms),
        state=task_wire.TASK_STATE_DEAD,
        payload=letter.payload,
        key=letter.row_key,
        attempt=letter.attempts,
        last_error=letter.last_error,
        history=history_of(letter.history),
    )
    _describe(task, letter.template, letter.fire_at_ms)
    return wire.DeadLetter(
        task=task,
        death_time=timestamp(letter.died_at_ms),
        attempts=letter.attempts,
        last_error=letter.last_error,
    )


def redrive_results(ids: Sequence[str], said: Iterable[bool | NotStored]) -> list[wire.ItemResult]:
    """One per id, in the order of the request."""
    return [_redriven(index, text, answer) for index, (text, answer) in enumerate(zip(ids, said, strict=True))]


def _redriven(index: int, text: str, said: bool | NotStored) -> wire.ItemResult:
    if said is True:
        return wire.ItemResult(index=index, outcome=STORED, task_id=text)
    if isinstance(said, NotStored):
        return _not_stored(index, said)
    sentence = f"The task at index {index} is no dead letter of this namespace: see ListDeadLetters."
    return _not_stored(index, NotFound(sentence, "NOT_A_DEAD_LETTER", field=f"task_ids[{index}]"))


def refused_results(tasks: Sequence[TaskId], said: Sequence[bool | NotStored]) -> list[wire.ItemResult]:
    """Of dead letters that the caller did not name: those that must stay so, each with its id."""
    return [
        wire.ItemResult(task_id=str(task), outcome=NOT_STORED, problem=problem_of(answer))
        for task, answer in zip(tasks, said, strict=True)
        if isinstance(answer, NotStored)
    ]
