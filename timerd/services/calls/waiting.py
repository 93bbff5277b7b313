"""What a task waits for, as far as the instance that is asked knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence

from timerd.core.regulation import HeldBack, Why
from timerd.core.sinks.trouble import TargetTrouble
from timerd.core.taken import QueueKey
from timerd.model.identity import TaskId
from timerd.model.instants import shown
from timerd.services.calls.queue_rules import QueueRules
from timerd.services.calls.replies import timestamp
from timerd.services.engine.verbs import State, TaskView
from timerd.v1 import task_pb2 as wire


def _no_target(_: QueueKey) -> TargetTrouble | None:
    return None


def waiting_of(
    view: TaskView,
    rules: QueueRules,
    now_ms: int,
    trouble_of: Callable[[QueueKey], TargetTrouble | None] = _no_target,
    served: Container[QueueKey] | None = None,
) -> wire.Waiting | None:
    """None: it is not due, is with a worker, or has ended. `trouble_of`: the target of a queue. `served`: those that
    somebody takes tasks of; None: nobody knows."""
    if view.template is None or view.state not in (State.PENDING, State.RETRYING):
        return None
    if view.due_at_ms > now_ms:
        return _until_retry(view) if view.state is State.RETRYING else None
    queue = QueueKey(view.template.namespace, view.template.queue)
    opens_ms = rules.opens_ms(queue, now_ms)
    if opens_ms > now_ms:
        return _until_open(queue, opens_ms)
    if (trouble := trouble_of(queue)) is not None:
        return _until_taken(queue, trouble, now_ms)
    if held_back := rules.held_back(queue, now_ms, view.template.limit_key):
        return _until_all(queue, held_back)
    if view.behind is not None:
        return _until_key(view, view.behind)
    return _until_sent(queue, view.template.limit_key, served)


def _until_sent(queue: QueueKey, limit_key: str, served: Container[QueueKey] | None) -> wire.Waiting:
    """Nothing keeps it but what workers there are."""
    if served is not None and queue not in served:
        return _until_worker(queue)
    if limit_key:
        return _until_turn(queue, limit_key)
    said = f"It waits for a free slot of a worker of the queue {queue.queue!r}, behind what was due before."
    return wire.Waiting(reason=wire.WAIT_REASON_SLOT, description=said)


def _until_taken(queue: QueueKey, trouble: TargetTrouble, now_ms: int) -> wire.Waiting:
    said = f"The {trouble.kind} of its queue {queue.queue!r} {trouble.found}"
    if trouble.wait_ms == math.inf:
        return wire.Waiting(reason=wire.WAIT_REASON_TARGET, description=said)
    if not trouble.wait_ms:
        return wire.Waiting(reason=wire.WAIT_REASON_TARGET, description=f"{said} One task is being tried.")
    until_ms = now_ms + int(trouble.wait_ms)
    said = f"{said} One task is tried at {shown(until_ms)}."
    return wire.Waiting(reason=wire.WAIT_REASON_TARGET, until=timestamp(until_ms), description=said)


def _until_key(view: TaskView, behind: TaskId) -> wire.Waiting:
    said = f"The task {behind} comes before it: tasks of the ordering key {view.ordering_key!r} go one at a time."
    if view.is_halted:
        said = (
            f"The task {behind} has failed for good, and its ordering key {view.ordering_key!r} stands still since: "
            "resume the key (timerd keys resume), or skip the task (timerd keys skip)."
        )
    return wire.Waiting(reason=wire.WAIT_REASON_KEY, description=said, task_id=str(behind))


def _until_turn(queue: QueueKey, limit_key: str) -> wire.Waiting:
    said = (
        f"It waits for a free slot of a worker of the queue {queue.queue!r}, whose limit keys take turns, behind what "
        f"was due before of its own, {limit_key!r}."
    )
    return wire.Waiting(reason=wire.WAIT_REASON_SLOT, description=said)


def _until_worker(queue: QueueKey) -> wire.Waiting:
    said = f"No worker of its queue {queue.queue!r} is connected: start one, as with `timerd work {queue.queue}`."
    return wire.Waiting(reason=wire.WAIT_REASON_WORKER, description=said)


def _until_retry(view: TaskView) -> wire.Waiting:
    said = f"Attempt {view.attempt} has failed; the next one is at {shown(view.due_at_ms)}."
    return wire.Waiting(reason=wire.WAIT_REASON_RETRY, until=timestamp(view.due_at_ms), description=said)


def _until_all(queue: QueueKey, held_back: Sequence[HeldBack]) -> wire.Waiting:
    """It goes when all of them let it: the sentence names each, the rest is of the one that holds it for longest."""
    each = [_UNTIL[held.why](queue, held) for held in held_back]
    if len(each) > 1:
        said = " ".join([waiting.description for waiting in each])
        each[0].description = f"{len(each)} limits hold it, all of which have to let it go, longest first. {said}"
    return each[0]


def _until_limit(queue: QueueKey, held: HeldBack) -> wire.Waiting:
    """Where others wait before it, it is later than that."""
    limited_ms, limit = held.until_ms, held.limit
    of = f"the limit {limit!r}" if limit else f"the queue {queue.queue!r}"
    if limited_ms == math.inf:
        many = "as it allows" if limit else "as its limit allows"
        said = f"Workers have as many tasks of {of} in hand {many}."
        return wire.Waiting(reason=wire.WAIT_REASON_LIMIT, description=said, limit=limit)
    until_ms = int(limited_ms)
    said = f"The rate of {of} allows its next start at {shown(until_ms)}."
    return wire.Waiting(reason=wire.WAIT_REASON_LIMIT, until=timestamp(until_ms), description=said, limit=limit)


def _until_held(queue: QueueKey, held: HeldBack) -> wire.Waiting:
    of, until_ms = f"by the limit {held.limit!r}" if held.limit else f"of the queue {queue.queue!r}", int(held.until_ms)
    said = f"A handler was throttled, so nothing {of} starts before {shown(until_ms)}."
    return wire.Waiting(reason=wire.WAIT_REASON_LIMIT, until=timestamp(until_ms), description=said, limit=held.limit)


def _until_tried(queue: QueueKey, held: HeldBack) -> wire.Waiting:
    if held.until_ms == math.inf:
        said = f"Attempts of the queue {queue.queue!r} have failed, so few are tried until these have succeeded."
        return wire.Waiting(reason=wire.WAIT_REASON_BREAKER, description=said)
    until_ms = int(held.until_ms)
    said = f"Attempts of the queue {queue.queue!r} fail, so none starts before {shown(until_ms)}; then one is tried."
    return wire.Waiting(reason=wire.WAIT_REASON_BREAKER, until=timestamp(until_ms), description=said)


def _until_less_of_key(queue: QueueKey, held: HeldBack) -> wire.Waiting:
    """`held.limit` is the limit key."""
    of = _key_of(queue, held)
    if held.until_ms == math.inf:
        many = "a key's share is" if held.why is Why.SHARE else "the limit of a key allows"
        said = f"Workers have as many tasks of {of} in hand as {many}."
        return wire.Waiting(reason=wire.WAIT_REASON_LIMIT, description=said, limit=held.keyed, limit_key=held.limit)
    until_ms = int(held.until_ms)
    said = f"The rate of {of} allows its next start at {shown(until_ms)}."
    return _until_key_may(until_ms, said, held)


def _until_key_held(queue: QueueKey, held: HeldBack) -> wire.Waiting:
    """`held.limit` is the limit key."""
    until_ms = int(held.until_ms)
    of = _key_of(queue, held)
    said = f"A handler was throttled, so nothing of {of} starts before {shown(until_ms)}."
    return _until_key_may(until_ms, said, held)


def _key_of(queue: QueueKey, held: HeldBack) -> str:
    of = f"limit {held.keyed!r}" if held.keyed else f"queue {queue.queue!r}"
    return f"the limit key {held.limit!r} of the {of}"


def _until_key_may(until_ms: int, said: str, held: HeldBack) -> wire.Waiting:
    until = timestamp(until_ms)
    return wire.Waiting(
        reason=wire.WAIT_REASON_LIMIT, until=until, description=said, limit=held.keyed, limit_key=held.limit
    )


def _until_adapted(queue: QueueKey, _: HeldBack) -> wire.Waiting:
    said = (
        f"Workers have as many tasks of the queue {queue.queue!r} in hand as its adaptive limit allows now (timerd "
        f"queues show {queue.queue})."
    )
    return wire.Waiting(reason=wire.WAIT_REASON_LIMIT, description=said)


_UNTIL = {
    Why.LIMIT: _until_limit,
    Why.THROTTLED: _until_held,
    Why.BREAKER: _until_tried,
    Why.KEY: _until_less_of_key,
    Why.SHARE: _until_less_of_key,
    Why.KEY_THROTTLED: _until_key_held,
    Why.ADAPTIVE: _until_adapted,
}


def _until_open(queue: QueueKey, opens_ms: float) -> wire.Waiting:
    if opens_ms == math.inf:
        said = f"Its queue {queue.queue!r} sends nothing until it is resumed (timerd queues resume {queue.queue})."
        return wire.Waiting(reason=wire.WAIT_REASON_PAUSED, description=said)
    until_ms = int(opens_ms)
    said = f"Its queue {queue.queue!r} sends nothing until {shown(until_ms)}."
    return wire.Waiting(reason=wire.WAIT_REASON_PAUSED, until=timestamp(until_ms), description=said)
