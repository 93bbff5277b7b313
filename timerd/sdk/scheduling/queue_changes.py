"""Changes of the rules of a queue, as callers write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from timerd.sdk.scheduling.adaptive import Adaptive, adaptive_message
from timerd.sdk.scheduling.key_rules import KeyLimit, by_key, override_of, share_of, weight_of
from timerd.sdk.scheduling.queue_infos import OnFailure, QueueOrder
from timerd.sdk.scheduling.queue_limits import limit_message
from timerd.sdk.values import flag, invalid, name, text
from timerd.v1 import regulation_service_pb2 as pb

# What may be cleared, and what of the message it is.
_CLEARED = {
    "rate": ("limit.rate",), "burst": ("limit.burst",), "max_in_hand": ("limit.max_in_hand",), "limits": ("limits",),
    "breaker": ("breaker",), "key_rate": ("keys.limit.rate",), "key_burst": ("keys.limit.burst",),
    "key_max_in_hand": ("keys.limit.max_in_hand",), "key_share": ("keys.share",), "keys": ("keys",),
    "key_limits": ("keys.overrides",), "key_weights": ("keys.weights",), "ordering": ("ordering",),
    "order": ("order",), "adaptive": ("adaptive",),
}  # fmt: skip


class RuleChanges(NamedTuple):
    """Of a queue; None: as it is."""

    rate: str | None
    burst: int | None
    max_in_hand: int | None
    limits: Iterable[str] | None
    breaker: bool | None
    adaptive: Adaptive | None
    ordering: str | None
    order: str | None


class KeyChanges(NamedTuple):
    """Of its limit keys; None: as it is."""

    rate: str | None
    burst: int | None
    max_in_hand: int | None
    share: float | None
    limits: Mapping[str, KeyLimit | None] | None
    weights: Mapping[str, float | None] | None


def update_request(rules: RuleChanges, keys: KeyChanges, clear: Iterable[str]) -> pb.UpdateQueueRequest:
    """Raises InvalidTask."""
    cleared = list(_all(clear, "clear"))
    paths = [path for each in cleared for path in _cleared(each)]
    # Who says nothing of it leaves it as it is: cleared it is what it is where nobody has said anything.
    ordering = "hold" if rules.ordering is None and "ordering" in cleared else rules.ordering
    order = "aged" if rules.order is None and "order" in cleared else rules.order
    request = pb.UpdateQueueRequest(ordering=ordering_of(ordering), order=order_of(order))
    paths += _limit_paths(request.limit, "limit", *rules[:3])
    if rules.limits is not None:
        request.limits.extend(names_of(rules.limits))
        paths.append("limits")
    if rules.breaker is not None:
        paths.append("breaker")
        if flag(rules.breaker, "breaker"):
            request.breaker.SetInParent()
    if rules.adaptive is not None:
        request.adaptive.CopyFrom(adaptive_message(rules.adaptive))
        paths.append("adaptive")
    paths += ["ordering"] if rules.ordering is not None else []
    paths += ["order"] if rules.order is not None else []
    paths += _key_paths(request, keys)
    request.update_mask.paths.extend(dict.fromkeys(paths))
    if not paths and not request.plain_keys:
        raise invalid("Nothing is changed: say what is, or what is cleared.", "queue")
    return request


def _key_paths(request: pb.UpdateQueueRequest, keys: KeyChanges) -> list[str]:
    paths = _limit_paths(request.keys.limit, "keys.limit", *keys[:3])
    if keys.share is not None:
        request.keys.MergeFrom(pb.KeyRules(share=share_of(keys.share)))
        paths.append("keys.share")
    plain = set()
    limits = by_key({} if keys.limits is None else keys.limits, "key_limits")
    weights = by_key({} if keys.weights is None else keys.weights, "key_weights")
    for key, limit in limits.items():
        if limit is None:
            plain.add(text(key, "limit_key"))
        else:
            request.keys.overrides.append(override_of(key, limit))
    for key, weight in weights.items():
        request.keys.weights.append(weight_of(key, 1.0 if weight is None else weight))
    request.plain_keys.extend(sorted(plain))
    paths += ["keys.overrides"] if request.keys.overrides else []
    return paths + (["keys.weights"] if request.keys.weights else [])


def _limit_paths(limit: pb.Limit, path: str, rate: str | None, burst: int | None, max_in_hand: int | None) -> list[str]:
    given = {"rate": rate, "burst": burst, "max_in_hand": max_in_hand}
    named = [f"{path}.{part}" for part, value in given.items() if value is not None]
    if named:
        limit.CopyFrom(limit_message(rate, burst, max_in_hand))
    return named


def _cleared(each: str) -> tuple[str, ...]:
    if not isinstance(each, str) or each not in _CLEARED:
        raise invalid(f"`clear` names {each!r:.60}: use {', '.join(_CLEARED)}.", "clear")
    return _CLEARED[each]


def ordering_of(ordering: str | None) -> str:
    """None: as it is."""
    if ordering is None:
        return "ON_FAILURE_UNSPECIFIED"
    found = {each.name.lower(): each for each in OnFailure if each is not OnFailure.UNSPECIFIED}.get(ordering)
    if found is None:
        raise invalid(f"`ordering` is {ordering!r:.60}: use 'hold', 'halt' or 'pass'.", "ordering")
    return f"ON_FAILURE_{found.name}"


def order_of(order: str | None) -> str:
    """None: as it is."""
    if order is None:
        return "QUEUE_ORDER_UNSPECIFIED"
    found = {each.name.lower(): each for each in QueueOrder if each is not QueueOrder.UNSPECIFIED}.get(order)
    if found is None:
        raise invalid(f"`order` is {order!r:.60}: use 'aged' or 'edf'.", "order")
    return f"QUEUE_ORDER_{found.name}"


def names_of(limits: Iterable[str]) -> list[str]:
    """Of limits."""
    return [name(each, "limits") for each in _all(limits, "limits")]


def _all(names: Iterable[str], field: str) -> Iterable[str]:
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        raise invalid(f"`{field}` is {names!r:.60}: give a list of names, as ['{names!s:.60}'].", field)
    return names
