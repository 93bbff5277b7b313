"""What a task carries besides its place: the template it shares with its batch, and what only some tasks have."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

from timerd.model.codec import field_names, lacking, split_known, with_kept
from timerd.model.partition import scope_of

MAX_PAYLOAD_BYTES = 1 << 20
MAX_BATCH_TASKS = 10_000
MAX_PRIORITY = 10
HORIZON_MS = 100 * 366 * 86_400_000
# Of milliseconds that is March 1973; seconds of the present are less for 3,000 years to come.
EARLIEST_MS = 100_000_000_000
# A level of priority is worth so much waiting (protocol section 6).
PRIORITY_MS = 64_000
# For so long a task on demand may be worth something: longer ones could keep those that wait in line back for ever.
MAX_ON_DEMAND_MS = 600_000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Attempt n+1 follows attempt n after min(initial * multiplier^(n-1), max), less up to `jitter` of it."""

    max_attempts: int = 20
    initial_backoff_ms: int = 1_000
    multiplier: float = 2.0
    max_backoff_ms: int = 3_600_000
    jitter: float = 0.1
    attempt_timeout_ms: int = 3_600_000
    # Here and below: the fields that only a later release knows (model/codec.py).
    kept: str = field(default="", hash=False)

    def to_json(self) -> dict[str, Any]:
        return with_kept({name: getattr(self, name) for name in _POLICY}, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> RetryPolicy:
        values, kept = split_known(stored, _POLICY)
        return cls(**values, kept=kept)


_POLICY = field_names(RetryPolicy)


@dataclass(frozen=True)
class Template:
    """What the tasks of one message have in common."""

    namespace: str
    queue: str
    priority: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    content_type: str = ""
    retry: RetryPolicy = RetryPolicy()
    # 0 = never.
    expire_at_ms: int = 0
    soft_expire_at_ms: int = 0
    traceparent: str = ""
    # From the fire time of each; 0 = never.
    expire_after_ms: int = 0
    soft_expire_after_ms: int = 0
    # 0 = its result is not kept.
    keep_result_ms: int = 0
    # An attempt whose handler says no progress for so long has failed; 0 = it may be silent.
    stall_timeout_ms: int = 0
    # Whose task it is among those of its queue, which take turns; empty: of nobody that is told apart.
    limit_key: str = ""
    # The queue of the task that is inserted when one of them ends; empty: none is.
    on_end: str = ""
    # Somebody waits for it: it goes before what waits in line, and the more the longer it waits.
    on_demand: bool = False
    kept: str = field(default="", hash=False)

    @property
    def has_kept(self) -> bool:
        return bool(self.kept or self.retry.kept)

    @property
    def lacks(self) -> frozenset[str]:
        """What this release would have to understand to deliver the tasks."""
        return lacking(self.kept) | lacking(self.retry.kept)

    @property
    def has_deadline(self) -> bool:
        """Whether its workers are told of an instant at which it is late, or worth nothing."""
        return bool(self.expire_after_ms or self.soft_expire_at_ms or self.soft_expire_after_ms)

    def expiry_ms(self, fire_at_ms: int) -> int:
        """From when on a task with this fire time is not delivered; 0: never."""
        return _earlier(self.expire_at_ms, self.expire_after_ms, fire_at_ms)

    def deadline_ms(self, fire_at_ms: int) -> int:
        """When it is worth nothing any more, also in a worker's hands; 0: never."""
        return fire_at_ms + self.expire_after_ms if self.expire_after_ms else 0

    def soft_expiry_ms(self, fire_at_ms: int) -> int:
        """From when on it is late; 0: never."""
        return _earlier(self.soft_expire_at_ms, self.soft_expire_after_ms, fire_at_ms)

    @cached_property
    def scope(self) -> int:
        return scope_of(self.namespace, self.queue)

    def to_json(self) -> dict[str, Any]:
        """Without what has its default, so that a stored group of single tasks stays small."""
        plain = _default_template()
        changed = {name: value for name in _TEMPLATE if (value := getattr(self, name)) != getattr(plain, name)}
        if "retry" in changed:
            changed["retry"] = self.retry.to_json()
        return with_kept(changed, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Template:
        values, kept = split_known(stored, _TEMPLATE, _IN_ALL_VERSIONS)
        values["labels"] = tuple((k, v) for k, v in values.get("labels", ()))
        if "retry" in values:
            values["retry"] = RetryPolicy.from_json(values["retry"])
        return cls(**{"namespace": "", "queue": "", **values}, kept=kept)


def _earlier(at_ms: int, after_ms: int, fire_at_ms: int) -> int:
    if not after_ms:
        return at_ms
    return min(at_ms, fire_at_ms + after_ms) if at_ms else fire_at_ms + after_ms


_TEMPLATE = field_names(Template)
_IN_ALL_VERSIONS = frozenset(("namespace", "queue"))


@lru_cache(maxsize=1)
def _default_template() -> Template:
    return Template("", "")


@dataclass(frozen=True, slots=True)
class Extra:
    """What few tasks have: a key, a place that is not their home, a history."""

    key: str = ""
    # The place in the task id, where the row does not live there (moved, retried). -1 = it lives there.
    home_position_ms: int = -1
    home_shard: int = 0
    last_error: str = ""
    # The delivery of the previous attempt is still with a worker until then: a row under a live lease does not fire.
    lease_until_ms: int = 0
    # Attempts used up in earlier generations' rows are not counted; these are the deliveries in all.
    deliveries: int = 0
    # Of a task of a schedule: what its delivery says of it (model/occurrences.py).
    occurrence: str = ""
    # Of its attempts that have failed (model/attempts.py).
    history: str = ""
    # What the attempts before have said last (model/progress.py).
    progress: str = ""
    # Its place among the tasks of its key is (position, order_base + index) (model/ordering.py).
    ordering_key: str = ""
    order_base: int = 0
    # That position, where the row does not stand there: it was redriven to its place of before. -1 = it does.
    order_position_ms: int = -1
    # Of an attempt that follows a failed one: it stands where that stood, and is not sent before this.
    not_before_ms: int = 0
    kept: str = ""

    @property
    def lacks(self) -> frozenset[str]:
        return lacking(self.kept)

    def to_json(self) -> dict[str, Any]:
        changed = {name: value for name, plain in _EXTRA.items() if (value := getattr(self, name)) != plain}
        return with_kept(changed, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Extra:
        """Nearly always all fields are known, and there may be tens of thousands of rows."""
        try:
            return cls(**stored)
        except TypeError:
            values, kept = split_known(stored, _EXTRA.keys())
            return cls(**values, kept=kept)


_EXTRA = {f.name: f.default for f in fields(Extra) if f.name != "kept"}
NO_EXTRA = Extra()
