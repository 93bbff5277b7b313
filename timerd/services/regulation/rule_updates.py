"""Rules of a queue of which only a part is given: what the mask names changes, and the rest stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from timerd.model.errors import Invalid
from timerd.services.calls.fields import quoted
from timerd.services.regulation.limit_wire import is_own_burst
from timerd.v1 import regulation_service_pb2 as wire

_OF_LIMIT = ("rate", "burst", "max_in_hand")
_LIMITS = ("limit", "keys.limit")
PATHS = (
    "limit", *(f"limit.{part}" for part in _OF_LIMIT), "limits", "breaker", "adaptive", "ordering", "order",
    "keys", "keys.limit", *(f"keys.limit.{part}" for part in _OF_LIMIT), "keys.share", "keys.overrides", "keys.weights",
)  # fmt: skip
_OfKey = TypeVar("_OfKey", wire.KeyOverride, wire.KeyWeight)


def paths_of(request: wire.UpdateQueueRequest) -> frozenset[str]:
    """What it names. Raises Invalid."""
    paths = list(request.update_mask.paths)
    unknown = [path for path in paths if path not in PATHS]
    if unknown or not (paths or request.plain_keys):
        wrong = f"update_mask names {quoted(unknown[0])}" if unknown else "update_mask is empty"
        raise Invalid(f"{wrong}: name what changes, of {', '.join(PATHS)}.", "update_mask")
    return frozenset(paths)


def put_of(shown: wire.Queue, request: wire.UpdateQueueRequest) -> wire.PutQueueRequest:
    """What a put would say that comes to the same. `shown`: the queue as it is."""
    paths = paths_of(request)
    ordering = request.ordering if "ordering" in paths else shown.ordering
    order = request.order if "order" in paths else shown.order
    put = wire.PutQueueRequest(limits=shown.limits, ordering=ordering, order=order)
    for part in ("limit", "breaker", "adaptive", "keys"):
        _take(put, shown, part)
        if part in paths:
            _take(put, request, part)
    if "limits" in paths:
        put.limits[:] = request.limits
    _merge_limit(put, request, "limit.", paths)
    _merge_keys(put, request, paths)
    return put


def _merge_keys(put: wire.PutQueueRequest, request: wire.UpdateQueueRequest, paths: frozenset[str]) -> None:
    within = {path for path in paths if path.startswith("keys.")}
    if "keys" in paths or not (within or request.plain_keys):
        return
    keys = put.keys
    keys.SetInParent()
    if "keys.limit" in within:
        _take(keys, request.keys, "limit")
    _merge_limit(keys, request.keys, "keys.limit.", paths)
    if "keys.share" in within:
        keys.ClearField("share")
        keys.MergeFrom(wire.KeyRules(share=request.keys.share))
    overrides = request.keys.overrides if "keys.overrides" in within else None
    weights = request.keys.weights if "keys.weights" in within else None
    merged = _by_key(keys.overrides, overrides, request.plain_keys)
    weighed = _by_key(keys.weights, weights, ())
    del keys.overrides[:], keys.weights[:]
    keys.overrides.extend(merged)
    keys.weights.extend(weighed)


def _by_key(had: Iterable[_OfKey], given: Sequence[_OfKey] | None, plain: Iterable[str]) -> list[_OfKey]:
    """Those that are given stay as they are, also where one key has two: that is refused. `given` None: none of them
    changes; empty, and no `plain` ones: all of them go."""
    if given is not None and not given and not plain:
        return []
    over: set[str] = {each.limit_key for each in given or ()}
    over.update(plain)
    kept = [each for each in had if each.limit_key not in over]
    kept.extend(given or ())
    return kept


def _merge_limit(to: Any, given: Any, path: str, paths: frozenset[str]) -> None:  # noqa: ANN401 - two have one
    """Of the limit of either. What limits nothing is none."""
    parts = {part for part in _OF_LIMIT if f"{path}{part}" in paths}
    if not parts or path[:-1] in paths:
        return
    limit, asked = to.limit, given.limit
    if "max_in_hand" in parts:
        limit.max_in_hand = asked.max_in_hand
    if "rate" in parts:
        limit.burst = limit.burst if is_own_burst(limit) else 0
        limit.rate = asked.rate
        _take(limit, asked, "period")
    if "burst" in parts or not limit.rate:
        limit.burst = asked.burst
    if not (limit.rate or limit.max_in_hand or limit.burst):
        to.ClearField("limit")


def _take(to: Any, given: Any, part: str) -> None:  # noqa: ANN401 - of several kinds
    """That part, also that there is none."""
    to.ClearField(part)
    if given.HasField(part):
        getattr(to, part).CopyFrom(getattr(given, part))
