"""Receiving without a stream: a call that waits for due tasks, and calls that say what became of them.

`Worker` is faster and looks after leases by itself; these are for programs that cannot run one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from timerd.sdk.scheduling.link import Link
from timerd.sdk.values import (
    ENDED_CONTENT,
    EndedTask,
    InterruptReason,
    Occurrence,
    OrderFence,
    Progress,
    Span,
    TaskResult,
    TaskState,
    check_one_held,
    datetime_of_ms,
    duration_of_ms,
    invalid,
    ms_of_timestamp,
    span_ms,
    text,
    whole_number,
)
from timerd.v1 import work_service_pb2 as pb

SERVICE = "WorkService"
MOST_TASKS = 1_000
LONGEST_WAIT = timedelta(seconds=60)
LONGEST_LEASE = timedelta(hours=1)
_ACTIONS = {"ack": 1, "nack": 2, "reject": 3, "release": 4, "throttled": 2}


@dataclass(frozen=True, slots=True)
class ReceivedTask:
    """A received task is in the hands of the program that has received it, until its lease is over.

    Args:
        payload: what the caller has sent; a text comes as UTF-8.
        queue: the queue that was asked for.
        task_id: the id of the task, as `Task.id` for its caller.
        delivery_id: the same over all attempts and repeats, so a receiver tells duplicates by it.
        ack_token: what `finish` and `extend` show to the server.
        attempt: the number of this delivery, 1 for the first.
        fire_time: the instant for which the task was scheduled, in UTC.
        late: whether `soft_deadline` has passed, or the fire time had passed when it was scheduled.
        key: the name that its caller has given to the task; empty where there is none.
        labels: those of the task.
        content_type: what the payload is; empty where its caller did not say it.
        priority: that of the task, 0 to 10.
        traceparent: the W3C trace context of the task; empty where there is none.
        fencing_scope: the part of the tasks within which fencing tokens are compared.
        fencing_token: grows with each change of the instance that fires the scope.
        attempt_timeout: how long this attempt may take in all.
        occurrence: for which instant a schedule made the task; None where no schedule did.
        deadline: the instant, in UTC, at which this attempt is over by the task's `expire_after`; or None.
        soft_deadline: the instant, in UTC, from which on the task is late; or None.
        previous_progress: the last progress that an earlier attempt has said before it failed; None where none did.
        keep_result: for how long the result that `finish` is given is kept; None where it is not.
        ordering_key: tasks of the queue with the same one are delivered one at a time; empty: the task has none.
        order_fence: grows along all starts of its ordering key; None where it has none.
        stall_timeout: for how long no progress may be said (`extend`); None: for any time.
    """

    payload: bytes
    queue: str
    task_id: str
    delivery_id: str
    ack_token: bytes
    attempt: int
    fire_time: datetime
    late: bool
    key: str
    labels: Mapping[str, str]
    content_type: str
    priority: int
    traceparent: str
    fencing_scope: str
    fencing_token: int
    attempt_timeout: timedelta
    occurrence: Occurrence | None
    deadline: datetime | None = None
    soft_deadline: datetime | None = None
    previous_progress: Progress | None = None
    keep_result: timedelta | None = None
    ordering_key: str = ""
    order_fence: OrderFence | None = None
    stall_timeout: timedelta | None = None

    @classmethod
    def of(cls, task: pb.ReceivedTask) -> ReceivedTask:
        """The received task says what the message `task` says."""
        return cls(
            task.payload,
            task.queue,
            task.task_id,
            task.delivery_id,
            task.ack_token,
            task.attempt,
            datetime_of_ms(ms_of_timestamp(task.fire_time)),
            task.late,
            task.key,
            dict(task.labels),
            task.content_type,
            task.priority,
            task.traceparent,
            task.fencing_scope,
            task.fencing_token,
            task.attempt_timeout.ToTimedelta(),
            Occurrence.of(task.occurrence) if task.HasField("occurrence") else None,
            _instant(task, "deadline"),
            _instant(task, "soft_deadline"),
            Progress.of(task.previous_progress),
            task.keep_result.ToTimedelta() if task.HasField("keep_result") else None,
            task.ordering_key,
            OrderFence.of(task.order_fence) if task.order_fence else None,
            task.stall_timeout.ToTimedelta() if task.HasField("stall_timeout") else None,
        )

    @property
    def ended(self) -> EndedTask | None:
        """The ended task is the one whose end made this task (`on_end`); None where no end did."""
        return EndedTask.of_payload(self.payload) if self.content_type == ENDED_CONTENT else None


class Extended(set[str]):
    """This set has the `delivery_id` of received tasks that are lost: another worker has the task, or it ended.

    Attributes:
        interrupted: of the others, those on which the work is for nothing, and why: `delivery_id` and reason. What
            `finish` says of them still counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.interrupted: dict[str, InterruptReason] = {}


class Receiving(Link):
    """The part of `Client` that needs the role `work`."""

    async def receive(
        self,
        queue: str | Sequence[str],
        *,
        max: int = 10,
        wait: Span = 20.0,
        lease: Span = 30.0,
    ) -> list[ReceivedTask]:
        """The call waits until tasks of a queue are due, and returns some of them; none where nothing was due in time.

        Call `finish` with each of them within the lease. What is not finished goes to another worker.

        Args:
            queue: the queue. Of several the tasks of the greatest score come first, as in the slots of a pool.
            max: how many are returned at most, 1 to 1,000. Default 10.
            wait: how long to wait where nothing is due, a timedelta or seconds, up to 60 s. Default 20 s.
            lease: how long a task stays with this program, a timedelta or seconds, 1 s to 1 h. Default 30 s.
        """
        self._open()
        wait_ms = span_ms(wait, "wait", most=LONGEST_WAIT)
        request = pb.ReceiveRequest(
            namespace=self._namespace,
            queue=text(queue, "queue") if isinstance(queue, str) else "",
            queues=() if isinstance(queue, str) else [text(each, "queue") for each in queue],
            max_tasks=whole_number(max, "max", 1, MOST_TASKS),
            wait=duration_of_ms(wait_ms),
            lease=duration_of_ms(span_ms(lease, "lease", most=LONGEST_LEASE)),
        )
        response = await self._calls("Receive", request, pb.ReceiveResponse, SERVICE, wait_ms / 1000)
        return [ReceivedTask.of(task) for task in response.tasks]

    async def finish(
        self,
        tasks: ReceivedTask | Iterable[ReceivedTask],
        action: str = "ack",
        *,
        delay: Span | None = None,
        error: str = "",
        result: bytes | str | TaskResult | None = None,
        limit: str = "",
        by_key: bool = False,
    ) -> dict[str, TaskState]:
        """The call says what became of received tasks, and returns when that is on stable storage.

        It returns those that could not be finished, by their `delivery_id`, with the state of the task: it had ended,
        or another worker has it by now. Repeating a call is safe.

        Args:
            tasks: one received task or several.
            action: "ack": done; "nack": failed, to be tried again; "reject": hopeless, a dead letter; "release":
                not begun, to another worker at once, and the attempt does not count; "throttled": what was asked said
                to wait, so nothing starts by the limit for `delay`, and the attempt does not count. Default "ack".
            delay: of "nack", the time to the next attempt, a timedelta or seconds. Default by the retry policy. Of
                "throttled" it must be given, and is an hour at most.
            error: of "nack" and "reject", why; up to 16 KiB. Default nothing.
            result: of "ack", what each of them has come to, for who waits for it; of tasks without `keep_result` it is
                not kept. Default nothing.
            limit: of "throttled", the name of a limit that the queue lists. Default the queue itself.
            by_key: of "throttled", what has the limit key of the task is held, and not the queue. Default not.
        """
        self._open()
        if action not in _ACTIONS:
            raise invalid(f"action is {action!r}: use one of {', '.join(map(repr, _ACTIONS))}.", "action")
        check_one_held(text(limit, "limit"), by_key=by_key)
        refused: dict[str, TaskState] = {}
        for part in _parts(tasks):
            request = pb.FinishRequest(
                namespace=self._namespace,
                ack_tokens=[task.ack_token for task in part],
                action=_ACTIONS[action],  # type: ignore[arg-type]
                error=text(error, "error", 16 * 1024),
            )
            if delay is not None:
                request.delay.CopyFrom(duration_of_ms(span_ms(delay)))
            if result is not None and (kept_for := max(task.keep_result or timedelta() for task in part)):
                request.result.CopyFrom(TaskResult.of(result).to_proto())
                request.keep_result.FromTimedelta(kept_for)
            if action == "throttled":
                request.throttle.CopyFrom(pb.Throttle(limit=limit, after=request.delay, by_key=by_key))
            response = await self._calls("Finish", request, pb.FinishResponse, SERVICE)
            refused |= {part[each.index].delivery_id: TaskState(each.state) for each in response.refused}
        return refused

    async def extend(
        self,
        tasks: ReceivedTask | Iterable[ReceivedTask],
        *,
        lease: Span = 30.0,
        progress: Progress | None = None,
    ) -> Extended:
        """The call says that received tasks are still in hand: their leases begin anew.

        It returns the `delivery_id` of those that are lost: another worker has the task, or it ended. Its `interrupted`
        names those that were cancelled, or have expired.

        Args:
            tasks: one received task or several.
            lease: as for `receive`, a timedelta or seconds. Default 30 s.
            progress: how far each of them has come: the next attempt has it as `previous_progress`. Default nothing.
        """
        self._open()
        lost = Extended()
        for part in _parts(tasks):
            request = pb.ExtendRequest(
                namespace=self._namespace,
                ack_tokens=[task.ack_token for task in part],
                lease=duration_of_ms(span_ms(lease, "lease", most=LONGEST_LEASE)),
            )
            if progress is not None:
                said = progress.to_proto()
                request.reports.extend([pb.ProgressReport(ack_token=task.ack_token, progress=said) for task in part])
            response = await self._calls("Extend", request, pb.ExtendResponse, SERVICE)
            gone = set(response.lost)
            lost |= {task.delivery_id for task in part if task.ack_token in gone}
            why = {each.ack_tokens: InterruptReason(each.reason) for each in response.interrupts}
            lost.interrupted |= {task.delivery_id: why[task.ack_token] for task in part if task.ack_token in why}
        return lost


def _instant(task: pb.ReceivedTask, field: str) -> datetime | None:
    return datetime_of_ms(ms_of_timestamp(getattr(task, field))) if task.HasField(field) else None


def _parts(tasks: ReceivedTask | Iterable[ReceivedTask]) -> Iterator[list[ReceivedTask]]:
    each = [tasks] if isinstance(tasks, ReceivedTask) else list(tasks)
    if wrong := [task for task in each if not isinstance(task, ReceivedTask)]:
        raise invalid(f"tasks holds {wrong[0]!r:.60}: give what receive has returned.", "tasks")
    for at in range(0, len(each), MOST_TASKS):
        yield each[at : at + MOST_TASKS]
