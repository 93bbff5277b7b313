"""Calls of RegulationService for limits with names: checked in full before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from timerd.core.taken import QueueKey
from timerd.model.errors import Invalid
from timerd.model.named_limits import KeyOverrides, LimitName, NamedLimit
from timerd.services.calls.fields import at_most, namespace_of
from timerd.services.calls.page_tokens import after_of, page_token
from timerd.services.calls.repeats import answered_once
from timerd.services.calls.replies import optional_timestamp, timestamp
from timerd.services.engine.ordering import Ordering
from timerd.services.engine.verbs import Verbs
from timerd.services.holding.driving import Performs
from timerd.services.regulation.key_calls import KeyCalls
from timerd.services.regulation.keys_elsewhere import KeysElsewhere
from timerd.services.regulation.limit_wire import (
    limit_name_of,
    limit_of,
    overrides_of,
    wire_of_key,
    wire_of_limit,
    wire_of_overrides,
)
from timerd.services.regulation.limiting import Limiting
from timerd.services.regulation.regulating import Regulating
from timerd.services.regulation.regulation_calls import DEFAULT_PAGE, MAX_PAGE, RegulationCalls, call_hash
from timerd.v1 import regulation_service_pb2 as wire

MOST_SHOWN = 1_000
MOST_KEYS_SHOWN = 100
_NAME_BYTES = 128


class LimitCalls:
    """One method a call: request -> reply, or one of model.errors. `now_ms`: engine time, trusted or not."""

    def __init__(self, regulating: Regulating, limiting: Limiting, verbs: Verbs, now_ms: Callable[[], int]) -> None:
        self._regulating = regulating
        self._limiting = limiting
        self._verbs = verbs
        self._now_ms = now_ms

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {"PutLimit": self.put, "GetLimit": self.get, "ListLimits": self.list, "DeleteLimit": self.delete}

    async def get(self, request: wire.GetLimitRequest) -> wire.GetLimitResponse:
        name = _name_of(request)
        shown = self._shown(name, await self._limiting.get(name))
        self._show_keys(name, shown)
        return wire.GetLimitResponse(limit=shown)

    async def list(self, request: wire.ListLimitsRequest) -> wire.ListLimitsResponse:
        """A page of which all were deleted is empty, and says where to go on."""
        namespace, size = namespace_of(request.namespace), at_most(request.page_size, DEFAULT_PAGE, MAX_PAGE)
        after = (after_of(request, _NAME_BYTES) or b"").rstrip(b"\0").decode()
        found = await self._limiting.page(namespace, after, size)
        more = page_token(request, found[-1][0].limit.encode().ljust(_NAME_BYTES, b"\0")) if len(found) == size else ""
        shown = [self._shown(name, kept) for name, kept in found if kept.limit is not None]
        return wire.ListLimitsResponse(limits=shown, next_page_token=more)

    async def put(self, request: wire.PutLimitRequest) -> wire.PutLimitResponse:
        name = _name_of(request)
        if not request.HasField("limit"):
            raise Invalid("The limit limits nothing: give max_in_hand, or a rate, or delete it.", "limit")
        limit, overrides = limit_of(request.limit), _overrides_of(request)
        self._regulating.check_limits([limit], of_keys=request.keyed)
        if overrides is not None:
            self._regulating.check_key_rates([limit, *(own for _, own in overrides)], "limit.rate")
        self._verbs.now_ms()

        async def carry_out() -> wire.PutLimitResponse:
            kept = await self._limiting.put(name, call_hash(request), request.revision, limit, overrides)
            return wire.PutLimitResponse(limit=self._shown(name, kept))

        return await answered_once(self._verbs, name.namespace, request, wire.PutLimitResponse, carry_out)

    async def delete(self, request: wire.DeleteLimitRequest) -> wire.DeleteLimitResponse:
        name = _name_of(request)
        self._regulating.check_limits([])
        self._verbs.now_ms()

        async def carry_out() -> wire.DeleteLimitResponse:
            await self._limiting.delete(name, call_hash(request), request.revision)
            return wire.DeleteLimitResponse()

        return await answered_once(self._verbs, name.namespace, request, wire.DeleteLimitResponse, carry_out)

    def _shown(self, name: LimitName, kept: NamedLimit) -> wire.NamedLimit:
        held_ms = self._regulating.held_until_ms(QueueKey(name.namespace, ""), name.limit, self._now_ms())
        return wire.NamedLimit(
            held_until=None if held_ms is None else timestamp(held_ms),
            namespace=name.namespace,
            name=name.limit,
            limit=None if kept.limit is None else wire_of_limit(kept.limit),
            revision=kept.revision,
            queues=self._limiting.listed_by(name)[:MOST_SHOWN],
            in_hand=self._regulating.in_hand(name),
            next_time=optional_timestamp(self._next_ms(name)),
            keyed=kept.keyed,
            overrides=wire_of_overrides(kept.overrides),
        )

    def _show_keys(self, name: LimitName, shown: wire.NamedLimit) -> None:
        now_ms = self._now_ms()
        at_limit = self._regulating.keys_at_limit(name, now_ms)
        shown.keys_at_limit.extend(wire_of_key(each) for each in at_limit[:MOST_KEYS_SHOWN])
        shown.keys_at_limit_count = len(at_limit)

    def _next_ms(self, name: LimitName) -> int:
        """0: now."""
        now_ms = self._now_ms()
        next_ms = self._regulating.limits.next_ms_of(name, now_ms)
        return next_ms if next_ms > now_ms else 0


def regulation_verbs(
    regulating: Regulating,
    runner: Performs,
    verbs: Verbs,
    now_ms: Callable[[], int],
    ordering: Ordering,
    elsewhere: KeysElsewhere | None = None,
) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
    """All of RegulationService."""
    limiting = Limiting(regulating.heard_limit, regulating.known, runner, regulating.others, regulating.fit_limit)
    of_queues = RegulationCalls(regulating, limiting, verbs, now_ms)
    of_keys = KeyCalls(ordering, verbs, now_ms, elsewhere)
    return {**of_queues.verbs(), **LimitCalls(regulating, limiting, verbs, now_ms).verbs(), **of_keys.verbs()}


def _overrides_of(request: wire.PutLimitRequest) -> KeyOverrides | None:
    """None: it is no keyed limit. Raises Invalid."""
    if request.keyed:
        return overrides_of(request.overrides, "overrides")
    if request.overrides:
        raise Invalid(
            "All queues that list the limit have it together, so no key has another one: say `keyed`, or leave "
            "`overrides` out.",
            "overrides",
        )
    return None


def _name_of(request: Any) -> LimitName:  # noqa: ANN401 - each call has its own
    return LimitName(namespace_of(request.namespace), limit_name_of(request.name, "name"))
