"""Rules of the limit keys of a queue: how much of each is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from timerd.sdk.scheduling.queue_limits import QueueLimit, limit_message
from timerd.sdk.values import invalid, text
from timerd.v1 import regulation_service_pb2 as pb

MOST_OVERRIDES = 1_000
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0
_OfKey = TypeVar("_OfKey")


@dataclass(frozen=True, slots=True)
class KeyLimit:
    """A key limit says how much of one limit key is sent; one without any value is no limit.

    Args:
        rate: how many of its tasks start in a time, retries counted: "100/s", "30/m". Default any.
        burst: how many of the rate may start at once. Default what it gives in 100 ms, at least 1.
        max_in_hand: how many of its deliveries workers have at a time. Default any number.
    """

    rate: str | None = None
    burst: int | None = None
    max_in_hand: int | None = None

    def to_proto(self) -> pb.Limit | None:
        """The message that says the same; None: it is no limit."""
        values = self.rate, self.burst, self.max_in_hand
        return None if values == (None, None, None) else limit_message(*values)


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Key rules say how much of each limit key of a queue is sent.

    Args:
        limit: of each key. Default none.
        overrides: in its place, of some keys, by key; up to 1,000. Default none.
        share: at most this part of what the queue may have in hand is one key's, one delivery at least: more than 0, up
            to 1. Default a half. In a cluster it is a part of the queue's own `max_in_hand`, and the default is none.
        weights: of some keys, how many turns they have for one of the others, by key: 0.01 to 100. Default one.
    """

    limit: KeyLimit = KeyLimit()
    overrides: Mapping[str, KeyLimit] = field(default_factory=dict)
    share: float | None = None
    weights: Mapping[str, float] = field(default_factory=dict)

    def to_proto(self) -> pb.KeyRules:
        """The message that says the same. Raises InvalidTask."""
        overrides = overrides_of(self.overrides)
        weights = [weight_of(key, weight) for key, weight in by_key(self.weights, "weights").items()]
        share = share_of(self.share)
        if not isinstance(self.limit, KeyLimit):
            raise invalid(f"`limit` of the keys is {self.limit!r:.60}: give a KeyLimit.", "limit")
        return pb.KeyRules(limit=self.limit.to_proto(), overrides=overrides, share=share, weights=weights)


@dataclass(frozen=True, slots=True)
class KeyRulesInfo:
    """A key rules info shows how much of each limit key of a queue is sent.

    Args:
        limit: of each key; None for any number.
        overrides: in its place, of some keys; None for no limit.
        share: at most this part of what the queue may have in hand is one key's.
        weights: of some keys, how many turns they have for one of the others.
    """

    limit: QueueLimit | None
    overrides: Mapping[str, QueueLimit | None]
    share: float
    weights: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, message: pb.KeyRules) -> KeyRulesInfo:
        """The info says what the message `message` says."""
        limit = QueueLimit.of(message.limit) if message.HasField("limit") else None
        return cls(
            limit,
            overrides_shown(message.overrides),
            message.share,
            {each.limit_key: each.weight for each in message.weights},
        )


def rules_of(keys: KeyRules) -> KeyRules:
    """Raises InvalidTask."""
    if not isinstance(keys, KeyRules):
        raise invalid(f"`keys` is {keys!r:.60}: give KeyRules(...).", "keys")
    return keys


def by_key(given: Mapping[str, _OfKey], field_name: str) -> Mapping[str, _OfKey]:
    """Raises InvalidTask."""
    if not isinstance(given, Mapping):
        raise invalid(f"`{field_name}` is {given!r:.60}: give a dict by limit key, as {{'acme': ...}}.", field_name)
    return given


def overrides_of(given: Mapping[str, KeyLimit]) -> list[pb.KeyOverride]:
    """Raises InvalidTask."""
    overrides = [override_of(key, limit) for key, limit in by_key(given, "overrides").items()]
    if len(overrides) > MOST_OVERRIDES:
        raise invalid(f"`overrides` has {len(overrides):,} keys: give up to {MOST_OVERRIDES:,}.", "overrides")
    return overrides


def overrides_shown(overrides: Iterable[pb.KeyOverride]) -> dict[str, QueueLimit | None]:
    return {each.limit_key: QueueLimit.of(each.limit) if each.HasField("limit") else None for each in overrides}


def override_of(key: str, limit: KeyLimit) -> pb.KeyOverride:
    """Raises InvalidTask."""
    if not isinstance(limit, KeyLimit):
        raise invalid(f"The limit of {key!r:.60} is {limit!r:.60}: give a KeyLimit.", "overrides")
    return pb.KeyOverride(limit_key=text(key, "limit_key"), limit=limit.to_proto())


def weight_of(key: str, weight: float) -> pb.KeyWeight:
    """Raises InvalidTask."""
    is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not is_number or not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise invalid(f"The weight of {key!r:.60} is {weight!r:.60}: give 0.01 to 100.", "weights")
    return pb.KeyWeight(limit_key=text(key, "limit_key"), weight=float(weight))


def share_of(share: float | None) -> float:
    """Raises InvalidTask."""
    if share is None:
        return 0.0
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise invalid(f"`share` is {share!r:.60}: give more than 0, up to 1.", "share")
    return float(share)
