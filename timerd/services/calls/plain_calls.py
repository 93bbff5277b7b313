"""Schedule calls that came in one turn of the loop, judged as columns and made rows in one pass.

Nothing is refused here. A call is plain where there is nothing to say of it and nothing to ask for it: no key, no
order, no quota, not late, small. What is not plain is judged by itself (`draft_of_single` and behind it), whose words
and rules these are: a call that is plain is stored and answered as it would be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Template
from timerd.services.calls.due_columns import Bools, Dues, GivenDues, dues_of
from timerd.services.calls.expiries import Int64s, bad_expiries
from timerd.services.calls.fields import MAX_REQUEST_ID_CHARS, all_plain, namespace_of, request_id_of
from timerd.services.calls.requests import SINGLE_BYTES, Rules, prefix_of_small
from timerd.services.calls.templates import common_of
from timerd.services.engine.new_singles import NewSingles
from timerd.v1 import timer_service_pb2 as wire


class PlainCalls(NamedTuple):
    """`numbers` (n,): which of the calls of the turn the tasks are of."""

    numbers: list[int]
    tasks: NewSingles


# What one call of a kind gave: a value for each of the columns.
_Given: TypeAlias = tuple[int, wire.ScheduleRequest, int, bytes, str, bool, int, int, bool, int, int]


class _Columns(NamedTuple):
    """(n,) each, of calls whose kinds may be plain. `numbers`: which calls of the turn they are."""

    numbers: Sequence[int]
    requests: Sequence[wire.ScheduleRequest]
    kinds: Sequence[int]
    payloads: Sequence[bytes]
    request_ids: Sequence[str]
    is_delay: Sequence[bool]
    seconds: Sequence[int]
    nanos: Sequence[int]
    has_request_time: Sequence[bool]
    request_seconds: Sequence[int]
    request_nanos: Sequence[int]

    def dues(self, now_ms: int) -> Dues:
        return dues_of(GivenDues(*map(np.array, self[5:])), now_ms)

    def lengths(self) -> Int64s:
        return np.array(list(map(len, self.payloads)), np.int64)

    def is_delayed(self, which: Sequence[int]) -> Bools:
        """Of these, whose delay counts from when its first try came: no call says since when, and a repeat is known."""
        ids, made, is_delay = self.request_ids, self.has_request_time, self.is_delay
        return np.array([is_delay[n] and bool(ids[n]) and not made[n] for n in which], np.bool_)

    def has_plain_id(self) -> Bools:
        if all_plain(self.request_ids, MAX_REQUEST_ID_CHARS):
            return np.ones(len(self.request_ids), np.bool_)
        return np.array([all_plain([each], MAX_REQUEST_ID_CHARS) for each in self.request_ids])


class _Kinds:
    """What calls of a turn share, judged once for all of them: namespace and template."""

    def __init__(self, rules: Rules, is_counted: Callable[[str], bool]) -> None:
        self._rules = rules
        self._is_counted = is_counted
        # As a caller wrote them -> place in `templates`; None: calls of the kind are not plain.
        self._known: dict[tuple[str, bytes], int | None] = {}
        self.templates: list[Template] = []

    def of(self, request: wire.ScheduleRequest) -> int | None:
        written = request.namespace, request.template.SerializeToString(deterministic=True)
        if written not in self._known:
            self._known[written] = self._judged(request)
        return self._known[written]

    def _judged(self, request: wire.ScheduleRequest) -> int | None:
        try:
            namespace = namespace_of(request.namespace)
            common = common_of(namespace, request.template, "template.")
            if common.ordering_key or self._is_counted(namespace):
                return None
            self._rules.check_intake(common)
        except Exception:  # noqa: BLE001 - by itself each meets the same, and is answered
            return None
        self.templates.append(common.template)
        return len(self.templates) - 1


def plain_calls(
    requests: Sequence[wire.ScheduleRequest | None], rules: Rules, is_counted: Callable[[str], bool]
) -> PlainCalls | None:
    """Those of the requests that are plain; of equal ones the first. None: there are none. `rules`: of calls that are
    made for the first time, now; `is_counted` says whether a namespace has a quota."""
    kinds = _Kinds(rules, is_counted)
    given = [each for number, request in enumerate(requests) if (each := _given(number, request, kinds)) is not None]
    if not given:
        return None
    columns = _Columns(*zip(*given, strict=True))
    dues = columns.dues(rules.clock.now_ms)
    prefixes = _prefixes(columns, kinds.templates, _is_good(columns, dues, kinds.templates, rules))
    if not prefixes:
        return None
    which = list(prefixes.values())
    rows = _group(columns, which, dues.fire_at_ms[which], kinds.templates, list(prefixes))
    is_delayed = columns.is_delayed(which)
    tasks = NewSingles(rows, dues.request_times_ms[which], is_delayed, rules.clock.now_ms)
    return PlainCalls([columns.numbers[n] for n in which], tasks)


def _given(number: int, request: wire.ScheduleRequest | None, kinds: _Kinds) -> _Given | None:
    if request is None or request.key or (which := request.WhichOneof("due")) is None:
        return None
    kind = kinds.of(request)
    if kind is None:
        return None
    is_delay, has_made = which == "delay", request.HasField("request_time")
    due = request.delay if is_delay else request.fire_time
    made_s, made_nanos = (request.request_time.seconds, request.request_time.nanos) if has_made else (0, 0)
    what = request.payload, request.request_id
    return (number, request, kind, *what, is_delay, due.seconds, due.nanos, has_made, made_s, made_nanos)


def _is_good(columns: _Columns, dues: Dues, templates: Sequence[Template], rules: Rules) -> Bools:
    """Of which there is nothing to say, and which are not late."""
    now_ms, kinds = rules.clock.now_ms, np.array(columns.kinds, np.intp)
    is_good = dues.is_good & (dues.fire_at_ms >= now_ms) & columns.has_plain_id()
    is_good &= columns.lengths() <= min(rules.payload_limit_bytes, SINGLE_BYTES)
    for kind, template in enumerate(templates):
        if template.expire_at_ms or template.expire_after_ms:
            is_good &= (kinds != kind) | ~bad_expiries(template, dues.fire_at_ms, now_ms)
    return is_good


def _prefixes(columns: _Columns, templates: Sequence[Template], is_good: Bools) -> dict[bytes, int]:
    """Of the good ones -> their places. What comes twice is the store's to know, which is asked for it by itself."""
    found: dict[bytes, int] = {}
    for n in np.flatnonzero(is_good).tolist():
        request_id = columns.request_ids[n] or request_id_of("")
        prefix = prefix_of_small(templates[columns.kinds[n]].namespace, request_id, columns.requests[n])
        found.setdefault(prefix, n)
    return found


def _group(
    columns: _Columns,
    which: Sequence[int],
    fire_at_ms: Int64s,
    templates: Sequence[Template],
    prefixes: Sequence[bytes],
) -> RowGroup:
    """The rows of some of them, with a table of just their templates, each once."""
    payloads = [columns.payloads[n] for n in which]
    lengths = np.array(list(map(len, payloads)), np.int64)
    table: dict[Template, int] = {}
    places = {kind: table.setdefault(templates[kind], len(table)) for kind in {columns.kinds[n] for n in which}}
    rows = np.zeros(len(which), ROW)
    rows["position_ms"] = rows["fire_at_ms"] = fire_at_ms
    rows["prefix"] = np.arange(len(which), dtype=np.uint32)
    rows["template"] = [places[columns.kinds[n]] for n in which]
    rows["length"] = lengths
    rows["offset"] = np.cumsum(lengths) - lengths
    return RowGroup(rows, np.frombuffer(b"".join(prefixes), PREFIX), list(table), b"".join(payloads), [])
