"""Calls of RegulationService for ordering keys: which of a queue stand still or have the most waiting, and going on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from timerd.core.taken import QueueKey
from timerd.model.errors import Invalid, NotFound
from timerd.model.halts import Halt
from timerd.model.identity import TaskId
from timerd.model.ordering import OnFailure
from timerd.model.regulations import Order
from timerd.services.calls.due_times import ms_from
from timerd.services.calls.fields import at_most, namespace_of, queue_of
from timerd.services.calls.repeats import answered_once
from timerd.services.calls.replies import timestamp
from timerd.services.engine.ordering import KeyState, Ordering
from timerd.services.engine.verbs import Verbs
from timerd.services.regulation.keys_elsewhere import KeysElsewhere
from timerd.v1 import regulation_service_pb2 as wire

DEFAULT_KEYS, MOST_KEYS = 100, 1_000
ON_FAILURE = {
    OnFailure.HOLD: wire.ON_FAILURE_HOLD,
    OnFailure.HALT: wire.ON_FAILURE_HALT,
    OnFailure.PASS: wire.ON_FAILURE_PASS,
}
_ASKED: dict[int, str] = {number: on_failure.value for on_failure, number in ON_FAILURE.items()}


# As stored.
ORDERS = {Order.AGED.value: wire.QUEUE_ORDER_AGED, Order.EDF.value: wire.QUEUE_ORDER_EDF}
_ORDER_ASKED: dict[int, str] = {number: order for order, number in ORDERS.items()}


def order_of(asked: int) -> str:
    """Empty: it stays as it is. Raises Invalid."""
    if asked and asked not in _ORDER_ASKED:
        raise Invalid(f"order has no value {asked}: use AGED or EDF.", "order")
    return _ORDER_ASKED.get(asked, "")


def ordering_of(asked: int) -> str:
    """Empty: it stays as it is. Raises Invalid."""
    if asked and asked not in _ASKED:
        raise Invalid(f"ordering has no value {asked}: use HOLD, HALT or PASS.", "ordering")
    return _ASKED.get(asked, "")


class KeyCalls:
    """One method a call: request -> reply, or one of model.errors. `elsewhere`: where there are other instances."""

    def __init__(
        self, ordering: Ordering, verbs: Verbs, now_ms: Callable[[], int], elsewhere: KeysElsewhere | None = None
    ) -> None:
        self._ordering = ordering
        self._elsewhere = elsewhere
        self._verbs = verbs
        self._now_ms = now_ms

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {"ListKeys": self.list, "SkipKey": self.skip}

    async def list(self, request: wire.ListKeysRequest) -> wire.ListKeysResponse:
        queue = QueueKey(namespace_of(request.namespace), queue_of(request.queue, "queue"))
        most = at_most(request.limit, DEFAULT_KEYS, MOST_KEYS)
        kept = kept_here(self._ordering, queue, most, self._now_ms())
        if self._elsewhere is None:
            return kept
        return merged([kept, *await self._elsewhere.kept(queue, most)], most)

    async def skip(self, request: wire.SkipKeyRequest) -> wire.SkipKeyResponse:
        """The dead letter stays one, and the key goes on."""
        queue = QueueKey(namespace_of(request.namespace), queue_of(request.queue, "queue"))

        async def carry_out() -> wire.SkipKeyResponse:
            halt = await self._halt_of(queue, request)
            await self._ordering.skip(halt)
            return wire.SkipKeyResponse(task_id=str(TaskId.from_bytes(halt.task_id)))

        return await answered_once(self._verbs, queue.namespace, request, wire.SkipKeyResponse, carry_out)

    async def _halt_of(self, queue: QueueKey, request: wire.SkipKeyRequest) -> Halt:
        """Who names a task skips no other one (rule F3). Raises NotFound."""
        halt = await self._ordering.halt(queue, request.ordering_key, request.task_id)
        if halt is None:
            what = f"The task {request.task_id}" if request.task_id else "No task"
            does = "does not halt" if request.task_id else "halts"
            raise NotFound(
                f"{what} {does} the ordering key {request.ordering_key!r} of the queue {queue.queue!r}: see which keys "
                "stand still by timerd keys list.",
                "NOT_HALTED",
            )
        return halt


def kept_here(ordering: Ordering, queue: QueueKey, most: int, now_ms: int) -> wire.ListKeysResponse:
    """What this instance says of the keys of the queue that it keeps."""
    keys = [_shown(each, now_ms) for each in ordering.states(queue, most)]
    return wire.ListKeysResponse(keys=keys, halted=ordering.halted(queue))


def merged(replies: Sequence[wire.ListKeysResponse], most: int) -> wire.ListKeysResponse:
    """What all instances say, in the order of one."""
    keys = sorted((key for reply in replies for key in reply.keys), key=_listed)
    return wire.ListKeysResponse(keys=keys[:most], halted=sum(reply.halted for reply in replies))


def _listed(key: wire.OrderingKey) -> tuple[bool, int, int]:
    """Those that stand still for the longest, then those that have the most in memory."""
    return not key.halted, ms_from(key.since, "since") if key.halted else 0, 0 if key.halted else -key.waiting


def _shown(state: KeyState, now_ms: int) -> wire.OrderingKey:
    shown = wire.OrderingKey(key=state.key, waiting=state.waiting, halted=state.halt is not None)
    if state.task is not None:
        shown.task_id = str(state.task)
    if state.halt is not None:
        shown.since.CopyFrom(timestamp(state.halt.since_ms))
    elif state.until_ms > now_ms:
        shown.next_time.CopyFrom(timestamp(state.until_ms))
    return shown
