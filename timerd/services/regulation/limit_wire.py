"""Limits: from the wire, checked in full, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from timerd.core.regulation import KeyAtLimit
from timerd.model.errors import Invalid
from timerd.model.named_limits import MOST_LISTED
from timerd.model.regulations import MOST_OVERRIDES, AdaptiveRules, KeyRules, QueueLimit
from timerd.services.calls.due_times import duration_ms
from timerd.services.calls.fields import plain_text, quoted
from timerd.services.calls.replies import duration, timestamp
from timerd.services.calls.templates import MAX_LIMIT_KEY_CHARS
from timerd.v1 import regulation_service_pb2 as wire

MOST = 1_000_000
SECOND_MS, DAY_MS = 1_000, 86_400_000
# What the rate gives in so long may come at once, where nobody says how much.
BURST_MS = 100
# A turn of a busy loop takes a few of these: a smaller burst would be lower than the rate.
LEAST_BURST_MS = 10
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0
_NAME = re.compile(r"[A-Za-z0-9._\-/:]{1,128}")


def limit_of(given: wire.Limit) -> QueueLimit:
    """Raises Invalid."""
    if not given.max_in_hand and not given.rate:
        raise Invalid("The limit limits nothing: give max_in_hand, or a rate.", "limit")
    for name in ("max_in_hand", "rate", "burst"):
        if (value := getattr(given, name)) > MOST:
            raise Invalid(f"{name} is {value:,}: at most {MOST:,} are allowed.", f"limit.{name}")
    period_ms = duration_ms(given.period, "limit.period") if given.HasField("period") else SECOND_MS
    if not given.rate:
        if given.burst or given.HasField("period"):
            raise Invalid("burst and period belong to a rate: give one, or leave them out.", "limit.rate")
        return QueueLimit(given.max_in_hand)
    if not SECOND_MS <= period_ms <= DAY_MS:
        raise Invalid(f"The period is {period_ms:,} ms: give a second to a day.", "limit.period")
    return QueueLimit(given.max_in_hand, given.rate, period_ms, _burst(given, period_ms))


def adaptive_of(given: wire.Adaptive) -> AdaptiveRules:
    """Raises Invalid."""
    if not 1 <= given.floor <= given.ceiling <= MOST:
        raise Invalid(
            f"The adaptive limit goes from {given.floor:,} to {given.ceiling:,}: give a floor of at least 1, and a "
            f"ceiling that is no less, up to {MOST:,}.",
            "adaptive",
        )
    target_ms = duration_ms(given.target, "adaptive.target") if given.HasField("target") else 0
    if given.HasField("target") and not 1 <= target_ms <= DAY_MS:
        raise Invalid(
            f"The target is {target_ms:,} ms: give a millisecond to a day, or leave it out.", "adaptive.target"
        )
    return AdaptiveRules(given.floor, given.ceiling, target_ms)


def wire_of_adaptive(rules: AdaptiveRules, tasks: int | None) -> wire.Adaptive:
    """`tasks`: how many may be in hand now; None: nothing was sent by it."""
    shown = wire.Adaptive(floor=rules.floor, ceiling=rules.ceiling, limit=rules.floor if tasks is None else tasks)
    if rules.target_ms:
        shown.target.CopyFrom(duration(rules.target_ms))
    return shown


def is_own_burst(limit: wire.Limit) -> bool:
    """Whether somebody has given it, as far as it shows."""
    period_ms = duration_ms(limit.period, "limit.period") if limit.HasField("period") else SECOND_MS
    return bool(limit.burst) and limit.burst != _burst(wire.Limit(rate=limit.rate), period_ms)


def _burst(given: wire.Limit, period_ms: int) -> int:
    least = max(1, -(-given.rate * LEAST_BURST_MS // period_ms))
    if not given.burst:
        return max(least, given.rate * BURST_MS // period_ms)
    if given.burst < least:
        raise Invalid(
            f"With a burst of {given.burst} a rate of {given.rate:,} in {period_ms:,} ms would not be reached: give "
            f"{least} or more.",
            "limit.burst",
        )
    return given.burst


def limit_name_of(text: str, field: str) -> str:
    """Raises Invalid."""
    if _NAME.fullmatch(text):
        return text
    wrong = f"The name {quoted(text)} of a limit is not allowed" if text else "The name of the limit is missing"
    raise Invalid(f"{wrong}: use 1 to 128 characters of A-Z a-z 0-9 . _ - / :", field)


def listed_of(names: Sequence[str]) -> tuple[str, ...]:
    """Of the limits that a queue lists, each once. Raises Invalid."""
    found = tuple(dict.fromkeys(limit_name_of(name, f"limits[{at}]") for at, name in enumerate(names)))
    if len(found) > MOST_LISTED:
        raise Invalid(f"The queue lists {len(found):,} limits: at most {MOST_LISTED} are allowed.", "limits")
    return found


def keys_of(given: wire.KeyRules, share: float) -> KeyRules:
    """`share`: where none is given. Raises Invalid."""
    if not 0 <= given.share <= 1:
        raise Invalid(
            f"The share is {given.share:g}: give more than 0, up to 1, or 0 for a half (in a cluster none).",
            "keys.share",
        )
    overrides = overrides_of(given.overrides, "keys.overrides")
    limit = _limit_in(given.limit, "keys") if given.HasField("limit") else None
    return KeyRules(limit, overrides, given.share or share, _weights_of(given.weights))


def overrides_of(given: Sequence[wire.KeyOverride], field: str) -> tuple[tuple[str, QueueLimit | None], ...]:
    """Raises Invalid."""
    if len(given) > MOST_OVERRIDES:
        raise Invalid(f"There are {len(given):,} overrides: at most {MOST_OVERRIDES:,} are allowed.", field)
    overrides: dict[str, QueueLimit | None] = {}
    for at, each in enumerate(given):
        path = f"{field}[{at}]"
        limit_key = plain_text(each.limit_key, MAX_LIMIT_KEY_CHARS, "limit_key", f"{path}.limit_key")
        if limit_key in overrides:
            raise Invalid(f"The limit_key {quoted(limit_key)} has two overrides: give one.", f"{path}.limit_key")
        overrides[limit_key] = _limit_in(each.limit, path) if each.HasField("limit") else None
    return tuple(overrides.items())


def wire_of_overrides(overrides: Iterable[tuple[str, QueueLimit | None]]) -> list[wire.KeyOverride]:
    return [
        wire.KeyOverride(limit_key=limit_key, limit=None if limit is None else wire_of_limit(limit))
        for limit_key, limit in overrides
    ]


def wire_of_key(each: KeyAtLimit) -> wire.KeyAtLimit:
    return wire.KeyAtLimit(
        limit_key=each.limit_key,
        in_hand=each.in_hand,
        waiting=each.waiting,
        next_time=timestamp(int(each.next_ms)) if each.next_ms < math.inf else None,
        throttled=each.is_throttled,
    )


def _weights_of(given: Sequence[wire.KeyWeight]) -> tuple[tuple[str, float], ...]:
    """Raises Invalid."""
    if len(given) > MOST_OVERRIDES:
        raise Invalid(f"There are {len(given):,} weights: at most {MOST_OVERRIDES:,} are allowed.", "keys.weights")
    weights: dict[str, float] = {}
    for at, each in enumerate(given):
        path = f"keys.weights[{at}]"
        limit_key = plain_text(each.limit_key, MAX_LIMIT_KEY_CHARS, "limit_key", f"{path}.limit_key")
        if limit_key in weights:
            raise Invalid(f"The limit_key {quoted(limit_key)} has two weights: give one.", f"{path}.limit_key")
        if not LEAST_WEIGHT <= each.weight <= MOST_WEIGHT:
            raise Invalid(
                f"The weight of {quoted(limit_key)} is {each.weight:g}: give {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}.",
                f"{path}.weight",
            )
        weights[limit_key] = each.weight
    return tuple((limit_key, weight) for limit_key, weight in weights.items() if weight != 1)


def _limit_in(given: wire.Limit, path: str) -> QueueLimit:
    """Raises Invalid."""
    try:
        return limit_of(given)
    except Invalid as error:
        raise Invalid(str(error), f"{path}.{error.field}", error.reason) from None


def wire_of_keys(keys: KeyRules) -> wire.KeyRules:
    shown = wire.KeyRules(share=keys.share)
    if keys.limit is not None:
        shown.limit.CopyFrom(wire_of_limit(keys.limit))
    shown.overrides.extend(wire_of_overrides(keys.overrides))
    for limit_key, weight in keys.weights:
        shown.weights.add(limit_key=limit_key, weight=weight)
    return shown


def wire_of_limit(limit: QueueLimit) -> wire.Limit:
    shown = wire.Limit(max_in_hand=limit.max_in_hand)
    if limit.rate:
        shown.rate, shown.burst = limit.rate, limit.burst
        shown.period.CopyFrom(duration(limit.period_ms))
    return shown
