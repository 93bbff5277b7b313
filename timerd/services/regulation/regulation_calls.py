"""Calls of RegulationService: checked in full before anything is written, answered as messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

from google.protobuf.message import Message

from timerd.core.regulation import BreakerState, RuleChange
from timerd.core.taken import QueueKey
from timerd.model.codec import ADAPTS
from timerd.model.errors import Invalid
from timerd.model.named_limits import LimitName
from timerd.model.regulations import Mode, Order, QueueLimit, Regulation
from timerd.services.calls.due_times import later_ms, ms_from
from timerd.services.calls.fields import at_most, namespace_of, plain_text, queue_of, request_id_of
from timerd.services.calls.page_tokens import after_of, page_token
from timerd.services.calls.repeats import answered_once
from timerd.services.calls.replies import timestamp
from timerd.services.engine.verbs import Verbs
from timerd.services.regulation.key_calls import ON_FAILURE, ORDERS, order_of, ordering_of
from timerd.services.regulation.limit_wire import (
    adaptive_of,
    keys_of,
    limit_of,
    listed_of,
    wire_of_adaptive,
    wire_of_keys,
    wire_of_limit,
)
from timerd.services.regulation.limiting import Limiting
from timerd.services.regulation.regulating import Regulating
from timerd.services.regulation.rule_updates import paths_of, put_of
from timerd.v1 import regulation_service_pb2 as wire

DEFAULT_PAGE, MAX_PAGE = 100, 1_000
MAX_NOTE_CHARS = 1_024
_NAME_BYTES = 128
_WIRE_OF = {
    Mode.RUNNING: wire.QUEUE_MODE_RUNNING,
    Mode.PAUSED: wire.QUEUE_MODE_PAUSED,
    Mode.DRAINING: wire.QUEUE_MODE_DRAINING,
    Mode.STOPPED: wire.QUEUE_MODE_STOPPED,
}
_STATES = {
    BreakerState.CLOSED: wire.BREAKER_STATE_CLOSED,
    BreakerState.OPEN: wire.BREAKER_STATE_OPEN,
    BreakerState.HALF_OPEN: wire.BREAKER_STATE_HALF_OPEN,
}
_Changed = TypeVar("_Changed", wire.PutQueueResponse, wire.UpdateQueueResponse)
_MODES = {number: mode for mode, number in _WIRE_OF.items()}


class RegulationCalls:
    """One method a call: request -> reply, or one of model.errors. `now_ms`: engine time, trusted or not."""

    def __init__(self, regulating: Regulating, limiting: Limiting, verbs: Verbs, now_ms: Callable[[], int]) -> None:
        self._regulating = regulating
        self._limiting = limiting
        self._verbs = verbs
        self._now_ms = now_ms

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {
            "GetQueue": self.get,
            "ListQueues": self.list,
            "SetMode": self.set_mode,
            "PutQueue": self.put,
            "UpdateQueue": self.update,
        }

    async def get(self, request: wire.GetQueueRequest) -> wire.GetQueueResponse:
        queue = _queue_of(request)
        return wire.GetQueueResponse(queue=self._shown(queue, await self._regulating.get(queue)))

    async def list(self, request: wire.ListQueuesRequest) -> wire.ListQueuesResponse:
        namespace, limit = namespace_of(request.namespace), at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE)
        after = (after_of(request, _NAME_BYTES) or b"").rstrip(b"\0").decode()
        found = await self._regulating.page(namespace, after, limit)
        more = page_token(request, found[-1][0].queue.encode().ljust(_NAME_BYTES, b"\0")) if len(found) == limit else ""
        return wire.ListQueuesResponse(queues=[self._shown(*each) for each in found], next_page_token=more)

    async def set_mode(self, request: wire.SetModeRequest) -> wire.SetModeResponse:
        """A reply that names silent instances is not remembered: its repeat asks them again, and changes nothing."""
        queue, now_ms = _queue_of(request), self._verbs.now_ms()
        decide, call = partial(_with_mode, asked=_asked_of(request)), call_hash(request)

        async def carry_out() -> wire.SetModeResponse:
            later_ms(request, now_ms)
            rules, silent = await self._regulating.change(queue, call, request.revision, decide)
            return wire.SetModeResponse(queue=self._shown(queue, rules), silent=silent)

        return await answered_once(
            self._verbs,
            queue.namespace,
            request,
            wire.SetModeResponse,
            carry_out,
            is_final=lambda reply: not reply.silent,
        )

    async def put(self, request: wire.PutQueueRequest) -> wire.PutQueueResponse:
        asked = self._regulation_of(request)
        return await self._change(request, wire.PutQueueResponse, partial(_with_limits, asked=asked))

    async def update(self, request: wire.UpdateQueueRequest) -> wire.UpdateQueueResponse:
        """As a put of the rules as they are, but for what the request names."""
        paths_of(request)
        return await self._change(request, wire.UpdateQueueResponse, partial(self._updated, request=request))

    def _updated(self, rules: Regulation, request: wire.UpdateQueueRequest) -> Regulation:
        asked = self._regulation_of(put_of(self._shown(_queue_of(request), rules), request))
        if asked.keys is not None and rules.keys is not None:
            asked = replace(asked, keys=replace(asked.keys, kept=rules.keys.kept))
        return _with_limits(rules, asked)

    async def _change(
        self, request: wire.PutQueueRequest | wire.UpdateQueueRequest, reply: type[_Changed], change: RuleChange
    ) -> _Changed:
        queue, call = _queue_of(request), call_hash(request)
        listed = [LimitName(queue.namespace, each) for each in listed_of(request.limits)]
        own = [QueueLimit(request.limit.max_in_hand, request.limit.rate)] if request.HasField("limit") else []
        if own or listed or request.HasField("keys"):
            of_keys = request.HasField("keys") or any(map(self._regulating.known.is_keyed, listed))
            self._regulating.check_limits(own + self._regulating.limits_named(listed), of_keys=of_keys)
            self._regulating.check_key_rates(self._regulating.limits_of_keys(listed), "limits")
        if request.HasField("adaptive"):
            self._regulating.check_releases(ADAPTS)
        self._verbs.now_ms()

        def decide(rules: Regulation) -> Regulation:
            changed = self._regulating.fit_keys(rules, change(rules), is_share_given=request.keys.share > 0)
            self._limiting.check_order(queue.namespace, changed)
            return changed

        async def carry_out() -> _Changed:
            async with self._limiting.listing(listed):
                rules, _ = await self._regulating.change(queue, call, request.revision, decide)
            return reply(queue=self._shown(queue, rules))

        return await answered_once(self._verbs, queue.namespace, request, reply, carry_out)

    def _regulation_of(self, request: wire.PutQueueRequest) -> Regulation:
        """Raises Invalid."""
        share = self._regulating.default_share
        return Regulation(
            limit=limit_of(request.limit) if request.HasField("limit") else None,
            limits=listed_of(request.limits),
            breaker=request.HasField("breaker"),
            adaptive=adaptive_of(request.adaptive) if request.HasField("adaptive") else None,
            keys=keys_of(request.keys, share) if request.HasField("keys") else None,
            ordering=ordering_of(request.ordering),
            order=order_of(request.order),
        )

    def _shown(self, queue: QueueKey, rules: Regulation) -> wire.Queue:
        """A mode that has ended by itself is over, and its note with it."""
        is_over = rules.is_over(self._now_ms())
        ordering = ON_FAILURE[rules.on_failure]
        shown = wire.Queue(namespace=queue.namespace, name=queue.queue, revision=rules.revision, ordering=ordering)
        shown.order = ORDERS.get(rules.order, wire.QUEUE_ORDER_UNSPECIFIED)
        shown.mode = wire.QUEUE_MODE_RUNNING if is_over else _WIRE_OF[rules.mode]
        if not is_over:
            shown.note = rules.note
        if rules.until_ms and not is_over:
            shown.until.CopyFrom(timestamp(rules.until_ms))
        if rules.limit is not None:
            shown.limit.CopyFrom(wire_of_limit(rules.limit))
        shown.limits.extend(rules.limits)
        if rules.keys is not None:
            shown.keys.CopyFrom(wire_of_keys(rules.keys))
        if rules.breaker:
            shown.breaker.CopyFrom(self._breaker(queue))
        if rules.adaptive is not None:
            shown.adaptive.CopyFrom(wire_of_adaptive(rules.adaptive, self._regulating.still.adaptive.tasks(queue)))
        held_ms = self._regulating.held_until_ms(queue, "", self._now_ms())
        if held_ms is not None:
            shown.held_until.CopyFrom(timestamp(held_ms))
        return shown

    def _breaker(self, queue: QueueKey) -> wire.Breaker:
        state, until_ms = self._regulating.still.breakers.state(queue, self._now_ms())
        until = None if until_ms is None else timestamp(until_ms)
        return wire.Breaker(state=_STATES[state], until=until)


def _queue_of(request: Any) -> QueueKey:  # noqa: ANN401 - each call has its own
    return QueueKey(namespace_of(request.namespace), queue_of(request.queue, "queue"))


def _asked_of(request: wire.SetModeRequest) -> Regulation:
    """What is asked for. Raises Invalid."""
    if request.mode not in _MODES:
        wrong = f"mode has no value {request.mode}" if request.mode else "The mode is missing"
        raise Invalid(f"{wrong}: use RUNNING, PAUSED, DRAINING or STOPPED.", "mode")
    mode, note = _MODES[request.mode], plain_text(request.note, MAX_NOTE_CHARS, "note", "note")
    until_ms = ms_from(request.until, "until") if request.HasField("until") else 0
    if until_ms and mode is Mode.RUNNING:
        raise Invalid("A queue is RUNNING until it is told otherwise: leave `until` out.", "until")
    return Regulation(mode=mode, note=note, until_ms=until_ms)


def _with_mode(rules: Regulation, asked: Regulation) -> Regulation:
    return replace(rules, mode=asked.mode, until_ms=asked.until_ms, note=asked.note)


def _with_limits(rules: Regulation, asked: Regulation) -> Regulation:
    ordering = asked.ordering or rules.ordering
    order = asked.order or rules.order
    if order == Order.EDF and asked.keys is not None:
        raise Invalid(
            "A queue of the order EDF goes by deadlines, and rules of limit keys say whose turn it is: leave `keys` "
            "out, take away those that the queue has (`clear` with `keys`), or give the order AGED.",
            "order",
        )
    limited = replace(rules, limit=asked.limit, limits=asked.limits, breaker=asked.breaker)
    return replace(limited, adaptive=asked.adaptive, keys=asked.keys, ordering=ordering, order=order)


def call_hash(request: Any) -> str:  # noqa: ANN401 - each call has its own
    """Names a call that changes something; without a request_id a repeat is another one."""
    content = request.SerializeToString(deterministic=True) if request.request_id else b""
    text = f"{type(request).__name__}\0{request.namespace}\0{request_id_of(request.request_id)}\0".encode() + content
    return blake2b(text, digest_size=12, person=b"timerd.rules").hexdigest()
