"""Changes of the rules of a queue, as callers write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from timerd.sdk.scheduling.key_rules import KeyLimit, override_of, share_of, weight_of
from timerd.sdk.scheduling.queue_infos import OnFailure
from timerd.sdk.scheduling.queue_limits import limit_message
from timerd.sdk.values import invalid, name, text
from timerd.v1 import regulation_service_pb2 as pb

# What may be cleared, and what of the message it is.
_CLEARED = {
    "rate": ("limit.rate",), "burst": ("limit.burst",), "max_in_hand": ("limit.max_in_hand",), "limits": ("limits",),
    "breaker": ("breaker",), "key_rate": ("keys.limit.rate",), "key_burst": ("keys.limit.burst",),
    "key_max_in_hand": ("keys.limit.max_in_hand",), "key_share": ("keys.share",), "keys": ("keys",),
}  # fmt: skip


class RuleChanges(NamedTuple):
    """Of a queue; None: as it is."""

    rate: str | None
    burst: int | None
    max_in_hand: int | None
    limits: Iterable[str] | None
    breaker: bool | None
    ordering: str | None


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
    request = pb.UpdateQueueRequest(ordering=ordering_of(rules.ordering))
    paths = [path for each in _all(clear, "clear") for path in _cleared(each)]
    paths += _limit_paths(request.limit, "limit", *rules[:3])
    if rules.limits is not None:
        request.limits.extend(names_of(rules.limits))
        paths.append("limits")
    if rules.breaker is not None:
        paths.append("breaker")
        if rules.breaker:
            request.breaker.SetInParent()
    paths += ["ordering"] if rules.ordering is not None else []
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
    for key, limit in (keys.limits or {}).items():
        if limit is None:
            plain.add(text(key, "limit_key"))
        else:
            request.keys.overrides.append(override_of(key, limit))
    for key, weight in (keys.weights or {}).items():
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
    if each not in _CLEARED:
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


def names_of(limits: Iterable[str]) -> list[str]:
    """Of limits."""
    return [name(each, "limits") for each in _all(limits, "limits")]


def _all(names: Iterable[str], field: str) -> Iterable[str]:
    if isinstance(names, str):
        raise invalid(f"`{field}` is {names!r:.60}: give a list of names, as [{names!r:.60}].", field)
    return names
