"""Counts how often a history passes each branch of the protocol, by looking over the shoulder of core and services. A
simulator that never comes by somewhere has shown nothing there."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import timerd.core.protocol.insertion as insert_module
import timerd.core.protocol.keys as keys_module
import timerd.core.protocol.lookup as lookup_module
from tests.simulator.events import Called, Event, Replied, Said, Verb
from timerd.core.partition.holding import Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.rows_in_hand import RowsInHand
from timerd.core.partition.settle_log import SettleLog
from timerd.core.protocol.procedures import AppendRows, OfferRows, SetMarks
from timerd.model.errors import Aborted
from timerd.model.registers import Control
from timerd.model.settle import Outcome
from timerd.model.storage import CasStatus, MarkKind
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.engine.moving import Moving
from timerd.services.holding.effect_runner import EffectRunner
from timerd.services.holding.procedure_runner import ProcedureRunner
from timerd.services.holding.read_ahead import ReadAhead

BRANCHES = (
    "insert: adopted",
    "insert: already have",
    "insert: below floor",
    "insert: written again (FORWARD)",
    "insert: idempotent repeat",
    "carry: retry",
    "carry: guard",
    "carry: hand over",
    "carry: parked",
    "carry: completed by a later holder",
    "take-over with unsettled rows",
    "take-over with settled rows",
    "look-up follows FORWARD",
    "cancel: cancelled",
    "cancel: already cancelled",
    "cancel: already fired",
    "move: moved",
    "move: it has fired",
    "move: decided by others (look-up)",
    "move: decided by others (holder)",
    "key: kept",
    "key: refused",
    "key: replaced or lost",
    "reload of a withheld queue",
    "written beside a reload",
    "page read ahead",
    "expired",
    "finish",
    "count",
    "late ack",
    "late nack or reject",
    "resumed after a restart",
    "cas unknown: done",
    "cas unknown: not done",
    "unknown: done",
    "unknown: not done",
    "store unavailable",
    "crash between effects",
    "insert: passed by verified",
    "redrive: lives again",
    "late nack finds its row",
    "move: lost",
    "cancel: in flight",
    "acked together",
    "order judged",
    "repeated: schedule with a key",
    "repeated: move",
    "repeated: cancel",
    "repeated: redrive",
    "overtaken: key",
    "overtaken: move",
    "a caller gave up",
)
HITS: Counter[str] = Counter()


def hit(name: str, number: int = 1) -> None:
    if number:
        HITS[name] += number


def before(function: Callable[..., Any], look: Callable[..., None]) -> Callable[..., Any]:
    @wraps(function)
    def looked(*args: Any, **named: Any) -> Any:
        look(*args)
        return function(*args, **named)

    return looked


def hits(name: str) -> Callable[..., None]:
    return lambda *_: hit(name)


def _carried(_: Any, carries: Any, __: Any) -> None:
    for carry in carries:
        hit("carry: " + carry.reason.name.lower().replace("_", " "))


def _passed(rows: Any, _: Any, stored: bytes | None) -> None:
    verified_ms = Control.from_bytes(stored).verified_ms if stored is not None else 0
    hit("insert: passed by verified", bool((rows.columns["position_ms"] < verified_ms).any()))


def _parked(_: Any, keys: Any, __: Any) -> None:
    hit("carry: parked", len(keys))


def _recarried(log: SettleLog, *_: Any) -> None:
    hit("carry: completed by a later holder", len(list(log.records.redone())))


def _recovered(_: Any, records: Any, *__: Any) -> None:
    hit("take-over with settled rows", len(records) > 0)


def _page_read(machine: PartitionMachine, page: Any, _: int) -> None:
    later = machine.control is not None and machine.control.token > machine.partition.bucket_ms // 1000 - 60
    hit("take-over with unsettled rows", machine.phase is Phase.LOAD and later and bool(page.groups))


def _ended_together(_: Any, entries: Any) -> None:
    hit("acked together", bool((entries["outcome"] == Outcome.ACKED).any()))


def _hinted(rows: RowsInHand, *_: Any) -> None:
    hit("written beside a reload", rows.left.reload is not None)


def _changed(machine: PartitionMachine, status: CasStatus, _: int) -> None:
    hit("finish", machine.phase is Phase.COUNT and status is CasStatus.APPLIED)


async def _perform(runner: ProcedureRunner, request: Any) -> Any:
    answer: Any = await _PERFORM(runner, request)
    if isinstance(request, OfferRows):
        hit("insert: " + (answer.value if answer is not None else "no holder"))
    elif isinstance(request, AppendRows):
        hit("insert: idempotent repeat", answer[0].repeated is not None)
    elif isinstance(request, SetMarks):
        hit("insert: written again (FORWARD)", sum(m.kind == MarkKind.FORWARD for m in request.marks))
    return answer


async def _try_move(moving: Moving, *given: Any) -> Any:
    """What is lost is tried again, so that callers hardly ever hear of it."""
    try:
        return await _TRY_MOVE(moving, *given)
    except Aborted:
        hit("move: lost")
        raise


_PERFORM, _TRY_MOVE = ProcedureRunner.perform, Moving._try
_LOOKS: tuple[tuple[Any, str, Callable[..., None]], ...] = (
    (PartitionMachine, "page_read", _page_read),
    (PartitionMachine, "control_changed", _changed),
    (SettleLog, "carry", _carried),
    (SettleLog, "offload", _parked),
    (SettleLog, "redo_requeues", _recarried),
    (SettleLog, "recover", _recovered),
    (SettleLog, "end_together", _ended_together),
    (RowsInHand, "begin_reload", hits("reload of a withheld queue")),
    (RowsInHand, "hint", _hinted),
    (ReadAhead, "_begin", hits("page read ahead")),
    (EffectRunner, "_count_rows", hits("count")),
    (EffectRunner, "_fail_move", hits("move: decided by others (holder)")),
    (SchedulerFiring, "end_late", hits("late ack")),
    (SchedulerFiring, "fail_late", hits("late nack or reject")),
    (SchedulerFiring, "leased", hits("resumed after a restart")),
    (PartitionMachine, "again_waiting", hits("late nack finds its row")),
    (lookup_module, "written_again", hits("look-up follows FORWARD")),
    (lookup_module, "TryCas", hits("move: decided by others (look-up)")),
    (insert_module, "_early", _passed),
    (keys_module, "end_task", hits("key: replaced or lost")),
)


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Everything that is told meanwhile is counted."""
    HITS.clear()
    with ExitStack() as stack:
        stack.enter_context(patch.object(ProcedureRunner, "perform", _perform))
        stack.enter_context(patch.object(Moving, "_try", _try_move))
        for owner, name, look in _LOOKS:
            stack.enter_context(patch.object(owner, name, before(getattr(owner, name), look)))
        yield HITS


def answered(events: Iterable[Event]) -> None:
    """What shows in the replies."""
    calls: dict[int, Called] = {}
    known: set[str] = set()
    for event in events:
        if isinstance(event, Called):
            calls[event.call] = event
        elif isinstance(event, Replied):
            called = calls[event.call]
            _reply(called.verb, event)
            _tell_repeat(called, event, is_repeat=called.request in known)
            known |= {called.request} if event.said is Said.OK else set()


def _tell_repeat(called: Called, replied: Replied, *, is_repeat: bool) -> None:
    hit("a caller gave up", "given up" in replied.answers)
    is_overtaken = any("OVERTAKEN" in answer for answer in replied.answers)
    hit(f"overtaken: {'key' if called.verb is Verb.SCHEDULE else 'move'}", is_overtaken)
    if is_repeat and replied.said is Said.OK:
        has_key = any(each.key for each in called.wanted)
        hit(f"repeated: {called.verb}{' with a key' if has_key else ''}")


def _reply(verb: Verb, replied: Replied) -> None:
    if replied.said is Said.UNKNOWN:
        return
    for answer in replied.answers:
        hit("expired", answer == "EXPIRED")
        if verb is Verb.CANCEL and replied.said is Said.OK:
            hit("cancel: " + answer.lower().replace("_", " "))
        elif verb is Verb.MOVE:
            hit("move: moved" if replied.said is Said.OK else "")
            hit("move: it has fired", answer == "HAS_FIRED")
        elif verb is Verb.REDRIVE:
            hit("redrive: lives again", answer == "True")
        elif verb is Verb.SCHEDULE and replied.said is not Said.NOT_DONE:
            hit("key: kept", answer.startswith("kept"))
            hit("key: refused", answer.startswith("refused"))
