"""The rules of a queue as they are stored: one register for each queue that ever had any, and a note that lists it."""

from __future__ import annotations

import json
import math
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from typing import Any

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.errors import NotUnderstood
from timerd.model.ordering import OnFailure
from timerd.model.registers import RegisterKey, Table
from timerd.model.storage import EntryKey

# Where the queues with rules, and the limits with names (named_limits.py), are listed. A name that stands there stays,
# so that no reader misses one.
REGULATED = b"regulations"
# So many calls are known by a register, for those that were not answered (services/calls/repeats.py).
REMEMBERED = 8
_QUEUE = "queue"


class Mode(StrEnum):
    """What a queue does. What workers have in hand goes on in all of them."""

    RUNNING = "running"
    # Takes in, sends nothing.
    PAUSED = "paused"
    # Sends, takes nothing in.
    DRAINING = "draining"
    STOPPED = "stopped"

    @property
    def sends(self) -> bool:
        return self in (Mode.RUNNING, Mode.DRAINING)

    @property
    def takes_in(self) -> bool:
        return self in (Mode.RUNNING, Mode.PAUSED)


class Order(StrEnum):
    """In what order due tasks of a queue are sent."""

    # By waiting and priority.
    AGED = "aged"
    # By deadline.
    EDF = "edf"


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """`max_in_hand` deliveries with workers at a time (0: any number), and `rate` starts in each `period_ms` (0: any),
    of which `burst` may come at once."""

    max_in_hand: int = 0
    rate: int = 0
    period_ms: int = 1_000
    burst: int = 1


def counts_hands(limit: QueueLimit | None) -> bool:
    """Whether only so many deliveries may be in hand."""
    return limit is not None and limit.max_in_hand > 0


@dataclass(frozen=True, slots=True)
class AdaptiveRules:
    """How many deliveries are with workers at a time is found out, from `floor` to `ceiling`. `target_ms`: more than
    this for one in ten is too many; 0: only who is throttled or out of time says so."""

    floor: int
    ceiling: int
    target_ms: int = 0


# What one limit key may have of a queue, where nobody says how much.
DEFAULT_SHARE = 0.5
MOST_OVERRIDES = 1_000


def part_of(share: float, whole: int) -> int:
    """How many of so many deliveries one key may have: one at least. Of 7 % of 100 it is 7, whatever the last digit of
    a float says."""
    return max(1, math.ceil(round(share * whole, 6)))


@dataclass(frozen=True, slots=True)
class KeyRules:
    """Of the limit keys of a queue. `limit`: of each key; `overrides`: in its place, of some. `share`: the part of what
    is in hand that one key may have. `weights`: of some keys, how many turns they have for one of the others."""

    limit: QueueLimit | None = None
    overrides: tuple[tuple[str, QueueLimit | None], ...] = ()
    share: float = DEFAULT_SHARE
    weights: tuple[tuple[str, float], ...] = ()
    kept: str = ""

    def counts_hands(self) -> bool:
        """Whether a key may have so many in hand only."""
        limits = [self.limit, *(limit for _, limit in self.overrides)]
        return any(map(counts_hands, limits))

    def to_json(self) -> dict[str, Any]:
        stored: dict[str, Any] = {"share": self.share}
        if self.limit is not None:
            stored["limit"] = astuple(self.limit)
        if self.overrides:
            stored["overrides"] = [(key, limit and astuple(limit)) for key, limit in self.overrides]
        if self.weights:
            stored["weights"] = self.weights
        return with_kept(stored, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> KeyRules:
        values, kept = split_known(stored, _KEY_RULES)
        limit, overrides = values.get("limit"), values.get("overrides", ())
        each = tuple((key, QueueLimit(*own) if own else None) for key, own in overrides)
        weights = tuple((key, weight) for key, weight in values.get("weights", ()))
        return cls(QueueLimit(*limit) if limit else None, each, values.get("share", DEFAULT_SHARE), weights, kept)


_KEY_RULES = field_names(KeyRules)


@dataclass(frozen=True, slots=True)
class Regulation:
    """Of one queue. `until_ms`: when the mode ends by itself, 0 = it does not. `requests`: hashes of the last calls
    that changed it. `limits`: names of those that it shares with other queues. `breaker`: whether it has one. `keys`:
    what its limit keys go by. `ordering`: what becomes of an ordering key when a task of it fails, as `OnFailure` or as
    a later release says it. `order`: as `Order`, likewise. `adaptive`: between what bounds it is found out how many may
    be in hand; None: it is not."""

    revision: int = 0
    mode: Mode = Mode.RUNNING
    until_ms: int = 0
    note: str = ""
    limit: QueueLimit | None = None
    requests: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    breaker: bool = False
    keys: KeyRules | None = None
    ordering: str = OnFailure.HOLD.value
    order: str = Order.AGED.value
    adaptive: AdaptiveRules | None = None
    kept: str = ""

    @property
    def is_limited(self) -> bool:
        return self.limit is not None or bool(self.limits)

    @property
    def on_failure(self) -> OnFailure:
        """HALT for what only a later release knows: nothing is out of order by it."""
        return OnFailure(self.ordering) if self.ordering in set(OnFailure) else OnFailure.HALT

    def mode_at(self, now_ms: int) -> Mode:
        return Mode.RUNNING if self.is_over(now_ms) else self.mode

    def is_over(self, now_ms: int) -> bool:
        """Whether its mode has ended by itself."""
        return 0 < self.until_ms <= now_ms

    def opens_ms(self, now_ms: int) -> float:
        """When it sends: `now_ms`, or later; infinite: when it is told so."""
        return now_ms if self.mode_at(now_ms).sends else self.until_ms or math.inf

    def asked(self, request: str) -> Regulation:
        return replace(self, requests=(*self.requests, request)[-REMEMBERED:])

    def to_bytes(self) -> bytes:
        values = {name: getattr(self, name) for name in _REGULATION}
        stored = {name: value for name, value in values.items() if value != _PLAIN[name]}
        if self.limit is not None:
            stored["limit"] = astuple(self.limit)
        if self.keys is not None:
            stored["keys"] = self.keys.to_json()
        if self.adaptive is not None:
            stored["adaptive"] = astuple(self.adaptive)
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Regulation:
        """Raises NotUnderstood."""
        values, kept = split_known(json.loads(stored), _REGULATION)
        check_understood("The rules of a queue", kept)
        values["mode"] = Mode(values.get("mode", Mode.RUNNING))
        if "limit" in values:
            values["limit"] = QueueLimit(*values["limit"])
        if "keys" in values:
            values["keys"] = KeyRules.from_json(values["keys"])
        if "adaptive" in values:
            # What a later release has appended is left out.
            values["adaptive"] = AdaptiveRules(*values["adaptive"][:3])
        for name in ("requests", "limits"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values, kept=kept)


NO_RULES = Regulation()
_REGULATION = field_names(Regulation)
_PLAIN: dict[str, Any] = {name: getattr(NO_RULES, name) for name in _REGULATION}


def read_regulation(stored: bytes | None) -> Regulation:
    """As this instance has to go by it: one that it does not understand is shut, not open."""
    if stored is None:
        return NO_RULES
    try:
        return Regulation.from_bytes(stored)
    except NotUnderstood as error:
        revision = json.loads(stored).get("revision", 0)
        return Regulation(revision, Mode.STOPPED, note=str(error))


def regulation_key(namespace: str, queue: str) -> RegisterKey:
    return RegisterKey(Table.REGULATIONS, name_of(namespace, queue))


def regulated_entry(namespace: str, queue: str) -> EntryKey:
    return EntryKey(REGULATED, name_of(namespace, queue))


def name_of(namespace: str, queue: str) -> bytes:
    """Those of a namespace lie side by side, in the order of their queues, behind its limits."""
    return f"{namespace}\0{_QUEUE}\0{queue}".encode()


def named(name: bytes) -> tuple[str, str] | None:
    """(namespace, queue); None: it is the name of something else."""
    namespace, kind, queue = name.decode().split("\0")
    return (namespace, queue) if kind == _QUEUE else None
