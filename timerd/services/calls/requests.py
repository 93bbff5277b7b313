"""Schedule requests of the wire -> NewTasks: checked in full before anything is written.

Three forms lead to one result: the unary request is a batch of one, items are gathered into columns, and columns are
taken as they are: no Python object per task, and the payload arena is not copied per task.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from timerd.core.protocol import Conflict
from timerd.core.taken import QueueKey
from timerd.model.codec import EXPIRES_AFTER, KEEPS_RESULTS, ON_DEMAND, ON_END, STALLS
from timerd.model.errors import Invalid, NotStored, Precondition
from timerd.model.identity import message_prefix
from timerd.model.ordering import ordered_extra
from timerd.model.rows import FLAG_ORDERED, PREFIX, ROW, RowGroup, record
from timerd.model.task import EARLIEST_MS, HORIZON_MS, MAX_BATCH_TASKS, MAX_PAYLOAD_BYTES, Extra, Template
from timerd.services.calls.column_keys import keys_of_columns
from timerd.services.calls.due_times import ANY_DIFFERENCE_MS, DueClock, check_delay, check_fire_at, clock_of, ms_from
from timerd.services.calls.expiries import Int64s, bad_expiries, check_expiries, check_instant
from timerd.services.calls.fields import key_of, limit_count, namespace_of, quoted, request_id_of
from timerd.services.calls.queue_rules import NoRules, QueueRules
from timerd.services.calls.templates import Common, common_of
from timerd.services.engine.verbs import NewTasks
from timerd.services.transport.slices import hash_now, hash_of, in_slices
from timerd.v1 import timer_service_pb2 as wire

ScheduleCall = wire.ScheduleRequest | wire.ScheduleBatchRequest
_SIZES = struct.Struct("<QQQQ")
_INT64 = struct.Struct("<q")
# What is larger is copied and hashed by itself: others do not wait for it.
SINGLE_BYTES = 64 * 1024
NO_RULES = NoRules()
NO_KEYS: Mapping[int, tuple[str, Conflict]] = {}


@dataclass(slots=True)
class Draft:
    """What is to be stored, and why the rest is not. `problems`: index in the request -> error."""

    tasks: NewTasks
    problems: dict[int, NotStored] = field(default_factory=dict)
    as_columns: bool = False
    gave_delays: bool = False


@dataclass(slots=True)
class Rules:
    """What holds for all tasks of one message. `is_repeat`: what depends on the time was judged before. `knows_origin`:
    from when delays count. Nobody knows it of a repeat that does not say when it was made."""

    clock: DueClock
    payload_limit_bytes: int
    is_repeat: bool = False
    knows_origin: bool = True
    queues: QueueRules = NO_RULES

    def check_intake(self, common: Common) -> None:
        """Raises QueueShut, Precondition (an instance of an older release lives, or a key cannot be kept in order), or
        Unavailable."""
        template = common.template
        if common.ordering_key:
            self.queues.check_ordering()
        for capability in _needed(template):
            self.queues.check_releases(capability)
        self.queues.check_intake(QueueKey(template.namespace, template.queue), self.clock.now_ms)

    def check(
        self, fire_at_ms: int, payload_bytes: int, template: Template, payload_field: str, *, is_delay: bool
    ) -> None:
        """What is left to check once the due time is known to be good."""
        if payload_bytes > self.payload_limit_bytes:
            raise Invalid(
                f"The payload has {payload_bytes:,} bytes: at most {self.payload_limit_bytes:,} are allowed here (the "
                f"server's payload limit, itself at most {MAX_PAYLOAD_BYTES:,}). Keep large content elsewhere and send "
                "where to find it.",
                payload_field,
                "PAYLOAD_TOO_LARGE",
            )
        if self.is_repeat and (self.knows_origin or not is_delay):
            check_instant(template, fire_at_ms)
        elif not self.is_repeat:
            check_expiries(template, fire_at_ms, self.clock.now_ms)


def rules_for(request: ScheduleCall, now_ms: int, payload_limit_bytes: int, queues: QueueRules = NO_RULES) -> Rules:
    """What a call has to keep to that is made for the first time. Raises TooOld."""
    rules = rules_of_now(clock_of(request, now_ms), payload_limit_bytes, queues)
    rules.clock.refuse_too_old()
    return rules


def rules_of_now(clock: DueClock, payload_limit_bytes: int, queues: QueueRules) -> Rules:
    """As `rules_for`, of calls of which it is known that they are not too old."""
    return Rules(clock, min(payload_limit_bytes, MAX_PAYLOAD_BYTES), queues=queues)


def rules_of_repeat(request: ScheduleCall, now_ms: int) -> Rules:
    """What a call has to keep to that was stored before: what depends on the time, on settings and on the rules of
    queues was judged then."""
    clock = clock_of(request, now_ms, ANY_DIFFERENCE_MS)
    return Rules(clock, MAX_PAYLOAD_BYTES, is_repeat=True, knows_origin=clock.request_time is not None)


async def draft_of_one(request: wire.ScheduleRequest, rules: Rules) -> Draft:
    """The unary form; its one mistake is raised."""
    namespace = namespace_of(request.namespace)
    common = common_of(namespace, request.template, "template.")
    rules.check_intake(common)
    gathered = Gathered(rules)
    which = request.WhichOneof("due")
    fire_at_ms = rules.clock.fire_at_ms(request, which)
    is_delay = which == "delay" and bool(request.request_id)
    gathered.add(0, fire_at_ms, request.payload, common, request.key, "", is_delay=is_delay)
    return Draft(gathered.tasks(namespace, await _prefix(namespace, request)))


def draft_of_single(request: wire.ScheduleRequest, rules: Rules) -> Draft | None:
    """As `draft_of_one`, at once, of a small request for one task that waits for nobody else and is not late. None: it
    is no such request. Raises what `draft_of_one` raises."""
    namespace, clock, payload = namespace_of(request.namespace), rules.clock, request.payload
    common = common_of(namespace, request.template, "template.")
    which = request.WhichOneof("due")
    fire_at_ms = clock.fire_at_ms(request, which)
    if request.key or common.ordering_key or len(payload) > SINGLE_BYTES or fire_at_ms < clock.now_ms:
        return None
    rules.check_intake(common)
    is_delay = which == "delay" and bool(request.request_id)
    rules.check(fire_at_ms, len(payload), common.template, "payload", is_delay=is_delay)
    prefix = prefix_of_small(namespace, request_id_of(request.request_id), request)
    columns = record(fire_at_ms, fire_at_ms, 0, 0, 0, 0, 0, 0, len(payload), 0)
    rows = RowGroup(columns, np.frombuffer(prefix, PREFIX), [common.template], payload, [])
    return Draft(new_tasks(namespace, prefix, rows, clock, (0,) if is_delay else ()))


async def draft_of_batch(request: wire.ScheduleBatchRequest, rules: Rules) -> Draft:
    """Raises what is wrong with the message as a whole; what is wrong with one task stands in `problems`."""
    namespace = namespace_of(request.namespace)
    which = request.WhichOneof("tasks")
    if which == "columns":
        return await _draft_of_columns(request, namespace, rules)
    if which == "items":
        return await _draft_of_items(request, namespace, rules)
    raise Invalid("The message holds no tasks: fill `columns` or `items`.", "items")


def prefix_of_small(namespace: str, request_id: str, request: wire.ScheduleRequest) -> bytes:
    """As `_prefix`, at once. `request_id`: that of the request, which was checked, or one that was made for it."""
    content = hash_now((request.SerializeToString(deterministic=True),)) if request.request_id else b""
    return message_prefix(namespace, request_id, content)


async def _prefix(namespace: str, request: wire.ScheduleRequest | wire.ScheduleBatchRequest) -> bytes:
    content = await hash_of(request.SerializeToString(deterministic=True)) if request.request_id else b""
    return message_prefix(namespace, request_id_of(request.request_id), content)


def new_tasks(
    namespace: str,
    prefix: bytes,
    rows: RowGroup,
    clock: DueClock,
    delayed: Sequence[int],
    keys: Mapping[int, tuple[str, Conflict]] = NO_KEYS,
) -> NewTasks:
    if clock.request_time is None:
        return NewTasks(namespace, prefix, rows, keys, clock.asked_ms(), 0, delayed, clock.now_ms)
    return NewTasks(namespace, prefix, rows, keys, clock.asked_ms(), ms_from(clock.request_time, "request_time"))


def _needed(template: Template) -> tuple[str, ...]:
    """What every instance is to understand before such a task is stored."""
    asks = (
        (template.expire_after_ms, EXPIRES_AFTER),
        (template.keep_result_ms, KEEPS_RESULTS),
        (template.stall_timeout_ms, STALLS),
        (template.on_end, ON_END),
        (template.on_demand, ON_DEMAND),
    )
    return tuple(capability for given, capability in asks if given)


# --- items ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Gathered:
    """Good items on their way into columns."""

    rules: Rules
    rows: list[tuple[int, int, int, int, int, int, int, int, int, int]] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    arena_bytes: int = 0
    templates: dict[Template, int] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    # Ordering key -> its place in `extras`, counted from 1, of tasks without a key.
    ordered: dict[str, int] = field(default_factory=dict)
    keys: dict[int, tuple[str, Conflict]] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    delayed: list[int] = field(default_factory=list)
    # Of the last item whose queue takes it in: mostly all have one.
    checked: Common | None = None
    # Of each queue: all items of a message hear the same, though an operator shuts it meanwhile.
    intake: dict[tuple[str, bool, tuple[str, ...]], Precondition | None] = field(default_factory=dict)

    def check_intake(self, common: Common) -> None:
        """As Rules.check_intake."""
        template = common.template
        name = template.queue, bool(common.ordering_key), _needed(template)
        if name not in self.intake:
            self.intake[name] = _shut(self.rules, common)
        if (shut := self.intake[name]) is not None:
            raise shut
        self.checked = common

    def add(
        self, index: int, fire_at_ms: int, payload: bytes, common: Common, key: str, at: str, *, is_delay: bool = False
    ) -> None:
        template = common.template
        self.rules.check(fire_at_ms, len(payload), template, at + "payload", is_delay=is_delay)
        if key:
            self._reserve(index, key_of(key, at + "key"), common.conflict, at + "key")
        if is_delay:
            self.delayed.append(len(self.rows))
        number = self.templates.setdefault(template, len(self.templates))
        extra, flags = self._extra(key, common.ordering_key), FLAG_ORDERED if common.ordering_key else 0
        self.rows.append((fire_at_ms, fire_at_ms, 0, index, 0, number, extra, self.arena_bytes, len(payload), flags))
        self.payloads.append(payload)
        self.arena_bytes += len(payload)

    def _extra(self, key: str, ordering_key: str) -> int:
        """Counted from 1; 0: the task needs none."""
        if not (key or ordering_key):
            return 0
        if not key and (known := self.ordered.get(ordering_key)) is not None:
            return known
        self.extras.append(ordered_extra(ordering_key, key) if ordering_key else Extra(key=key))
        if not key:
            self.ordered[ordering_key] = len(self.extras)
        return len(self.extras)

    def _reserve(self, index: int, key: str, conflict: Conflict, field_path: str) -> None:
        first = self.taken.setdefault(key, index)
        if first != index:
            raise Invalid(
                f"The key {quoted(key)} stands twice in this message, first at item {first}: a key names one task, so "
                "send the second one with another key or in a later message.",
                field_path,
            )
        self.keys[len(self.rows)] = (key, conflict)

    def tasks(self, namespace: str, prefix: bytes) -> NewTasks:
        columns = np.array(self.rows, ROW)
        arena = self.payloads[0] if len(self.payloads) == 1 else b"".join(self.payloads)
        rows = RowGroup(columns, np.frombuffer(prefix, PREFIX), list(self.templates), arena, self.extras)
        return new_tasks(namespace, prefix, rows, self.rules.clock, self.delayed, self.keys)


async def _draft_of_items(request: wire.ScheduleBatchRequest, namespace: str, rules: Rules) -> Draft:
    items = request.items.items
    limit_count(len(items), MAX_BATCH_TASKS, "tasks", "items")
    common = common_of(namespace, request.template, "template.") if request.HasField("template") else None
    gathered = Gathered(rules)
    problems: dict[int, NotStored] = {}
    async for index, item in in_slices(items):
        try:
            _add_item(gathered, index, item, namespace, common)
        except (Invalid, Precondition) as error:
            problems[index] = error
    if not request.request_id:
        gathered.delayed.clear()
    return Draft(gathered.tasks(namespace, await _prefix(namespace, request)), problems)


def _shut(rules: Rules, common: Common) -> Precondition | None:
    try:
        rules.check_intake(common)
    except Precondition as shut:
        return shut
    return None


def _add_item(gathered: Gathered, index: int, item: wire.TaskItem, namespace: str, common: Common | None) -> None:
    at = f"items[{index}]."
    if item.HasField("template"):
        common = common_of(namespace, item.template, at + "template.")
    if common is None:
        raise Invalid(
            "The task has no template, and neither has the message: give one of them, at least with a queue.",
            at + "template",
        )
    if common is not gathered.checked:
        gathered.check_intake(common)
    which = item.WhichOneof("due")
    fire_at_ms = gathered.rules.clock.fire_at_ms(item, which, at)
    gathered.add(index, fire_at_ms, item.payload, common, item.key, at, is_delay=which == "delay")


# --- columns -------------------------------------------------------------------------------------------------------


async def _draft_of_columns(request: wire.ScheduleBatchRequest, namespace: str, rules: Rules) -> Draft:
    columns = request.columns
    common = common_of(namespace, request.template, "template.")
    keys = keys_of_columns(columns, common, len(columns.fire_at_ms) or len(columns.delay_ms))
    rules.check_intake(keys.common_of(common) if keys is not None else common)
    if keys is None and len(columns.fire_at_ms) + len(columns.delay_ms) == 1:
        single = await _draft_of_single(request, namespace, rules, common)
        if single is not None:
            return single
    asked = _asked(columns)
    gave_delays = not columns.fire_at_ms
    payloads = columns.payloads
    given = np.array(columns.payload_lengths[:], np.int64)
    lengths = _lengths(given, len(asked), len(payloads))
    fire_at = asked + 0 if not gave_delays else rules.clock.origin_ms() + np.clip(asked, 0, HORIZON_MS)
    packed = keys.packed if keys is not None else b""
    prefix = await _columns_prefix(namespace, request, common, asked.tobytes(), given.tobytes(), packed)
    problems = _column_problems(asked if gave_delays else None, fire_at, lengths, common.template, rules)
    rows = RowGroup(_rows(fire_at, lengths), np.frombuffer(prefix, PREFIX), [common.template], payloads, [])
    if keys is not None:
        keys.give(rows, common)
    else:
        _order(rows, common.ordering_key)
    if problems:
        rows = rows.select(np.setdiff1d(np.arange(len(rows)), np.fromiter(problems, np.intp, len(problems))))
    delayed = range(len(rows)) if gave_delays and request.request_id else ()
    return Draft(new_tasks(namespace, prefix, rows, rules.clock, delayed), problems, True, gave_delays)


async def _draft_of_single(
    request: wire.ScheduleBatchRequest, namespace: str, rules: Rules, common: Common
) -> Draft | None:
    """What a single call of a client makes, without numpy, whose calls cost more here than its loops save. None:
    something is wrong with it, and the general form says what."""
    columns, clock = request.columns, rules.clock
    given, payload, gave_delays = columns.payload_lengths, columns.payloads, not columns.fire_at_ms
    size_bytes = len(payload)
    if len(given) != 1 or given[0] != size_bytes:
        return None
    asked_ms = columns.delay_ms[0] if gave_delays else columns.fire_at_ms[0]
    try:
        if gave_delays:
            check_delay(asked_ms, "")
        fire_at_ms = asked_ms + (clock.origin_ms() if gave_delays else 0)
        check_fire_at(fire_at_ms, clock.now_ms, "")
        rules.check(fire_at_ms, size_bytes, common.template, "", is_delay=gave_delays)
    except Invalid:
        return None
    prefix = await _columns_prefix(namespace, request, common, _INT64.pack(asked_ms), _INT64.pack(size_bytes))
    columns_of_one = record(fire_at_ms, fire_at_ms, 0, 0, 0, 0, 0, 0, size_bytes, 0)
    rows = RowGroup(columns_of_one, np.frombuffer(prefix, PREFIX), [common.template], payload, [])
    _order(rows, common.ordering_key)
    delayed = (0,) if gave_delays and request.request_id else ()
    return Draft(new_tasks(namespace, prefix, rows, clock, delayed), {}, True, gave_delays)


def _asked(columns: wire.TaskColumns) -> Int64s:
    """fire_at_ms or delay_ms, whichever is there."""
    instants, delays = len(columns.fire_at_ms), len(columns.delay_ms)
    if instants and delays:
        raise Invalid("Both fire_at_ms and delay_ms are set: give one of them for all tasks.", "columns.fire_at_ms")
    limit_count(instants or delays, MAX_BATCH_TASKS, "tasks", "columns.fire_at_ms")
    return np.array(columns.fire_at_ms[:] if instants else columns.delay_ms[:], np.int64)


def _lengths(given: Int64s, count: int, arena_bytes: int) -> Int64s:
    """One per task; a single value speaks for all."""
    if len(given) not in (0, 1, count):
        raise Invalid(
            f"There are {len(given):,} payload_lengths for {count:,} tasks: give one for each, or a single one "
            "for all.",
            "columns.payload_lengths",
        )
    lengths = given if len(given) == count else np.full(count, given[0] if len(given) else 0, np.int64)
    if (total := int(lengths.sum())) != arena_bytes:
        raise Invalid(
            f"The payload_lengths add up to {total:,} bytes, but payloads has {arena_bytes:,}: they must be the same.",
            "columns.payload_lengths",
        )
    return lengths


def _rows(fire_at: Int64s, lengths: Int64s) -> npt.NDArray[np.void]:
    rows = np.zeros(len(fire_at), ROW)
    rows["position_ms"] = rows["fire_at_ms"] = fire_at
    rows["index"] = np.arange(len(fire_at), dtype=np.uint32)
    rows["length"] = lengths
    rows["offset"] = np.cumsum(lengths) - lengths
    return rows


def _order(rows: RowGroup, ordering_key: str) -> None:
    """All of them have this key; empty: none."""
    if ordering_key:
        rows.extras = [ordered_extra(ordering_key)]
        rows.columns["extra"], rows.columns["flags"] = 1, FLAG_ORDERED


async def _columns_prefix(
    namespace: str, request: wire.ScheduleBatchRequest, common: Common, asked: bytes, lengths: bytes, keys: bytes = b""
) -> bytes:
    """As `_prefix`, from the arrays at hand: writing a large message a second time costs as much as hashing it."""
    if not request.request_id:
        return await _prefix(namespace, request)
    # An instant of the caller's clock is another one each time.
    head_of = _head if request.HasField("request_time") else _known_head
    head = head_of(request.namespace, request.request_time.SerializeToString(), common.packed)
    counts = len(asked) // _INT64.size, len(lengths) // _INT64.size
    sizes = _SIZES.pack(len(head), *counts, 1 if request.columns.fire_at_ms else 2)
    content = await hash_of(sizes, head, asked, lengths, request.columns.payloads, *([keys] if keys else []))
    return message_prefix(namespace, request_id_of(request.request_id), content)


def _head(namespace: str, request_time: bytes, template: bytes) -> bytes:
    """What comes before the tasks."""
    head = wire.ScheduleBatchRequest(namespace=namespace)
    head.request_time.ParseFromString(request_time)
    head.template.ParseFromString(template)
    return head.SerializeToString(deterministic=True)


_known_head = lru_cache(maxsize=1024)(_head)


def _column_problems(
    delays: Int64s | None, fire_at: Int64s, lengths: Int64s, template: Template, rules: Rules
) -> dict[int, NotStored]:
    bad = (fire_at < EARLIEST_MS) | (fire_at > rules.clock.now_ms + HORIZON_MS) | (lengths > rules.payload_limit_bytes)
    if delays is not None:
        bad |= (delays < 0) | (delays > HORIZON_MS)
    is_delay = delays is not None
    bad |= bad_expiries(template, fire_at, rules.clock.now_ms)
    if not bad.any():
        return {}
    found: dict[int, NotStored] = {}
    name = "fire_at_ms" if delays is None else "delay_ms"
    for index in np.flatnonzero(bad).tolist():
        due_field = f"columns.{name}[{index}]"
        try:
            if delays is not None:
                check_delay(int(delays[index]), due_field)
            check_fire_at(int(fire_at[index]), rules.clock.now_ms, due_field)
            size_bytes, size_field = int(lengths[index]), f"columns.payload_lengths[{index}]"
            rules.check(int(fire_at[index]), size_bytes, template, size_field, is_delay=is_delay)
        except Invalid as error:
            found[index] = error
    return found
