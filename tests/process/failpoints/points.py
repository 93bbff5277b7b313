"""The points: which call of the server each one is, and when it counts.

Production code knows nothing of them. A point wraps a method or a function before the server is wired; `asks` looks at
the arguments before the call, `given` at the result after it.
"""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from timerd import bootstrap
from timerd.adapters.sqlite import commit as commits
from timerd.adapters.sqlite import store as stores
from timerd.adapters.sqlite.commit import Commit
from timerd.adapters.sqlite.days import CatalogueDays
from timerd.adapters.sqlite.store import SqliteStore
from timerd.core.partition.holding import Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.protocol.procedures import (
    AppendRows,
    AskToEnd,
    AskToEndMany,
    AskToMove,
    MarkAndLook,
    Request,
    SetMarks,
    TryCas,
)
from timerd.model.registers import Table
from timerd.model.storage import Append, CasStatus, DeadLetter, MarkKind
from timerd.services.dispatch.delivery import Delivery
from timerd.services.holding.effect_runner import EffectRunner
from timerd.services.holding.procedure_runner import ProcedureRunner
from timerd.services.work.work_stream import WorkStream
from timerd.v1 import work_service_pb2 as pb


def always(*_: Any, **__: Any) -> bool:  # noqa: ANN401 - any call
    return True


@dataclass(frozen=True, slots=True)
class Point:
    owner: Any
    name: str
    after: bool = False
    asks: Callable[..., bool] = always
    given: Callable[[Any], bool] = always


def _has_callers_rows(messages: Sequence[Append]) -> bool:
    """Carries and moves have no prefix."""
    return any(message.prefix for message in messages)


def _is_deliver(_: WorkStream, response: pb.WorkResponse, *__: int) -> bool:
    return response.HasField("deliver")


def _takes_over(machine: PartitionMachine, status: CasStatus, _: int) -> bool:
    return status is CasStatus.APPLIED and machine.phase is Phase.ACQUIRE


def _closes(machine: PartitionMachine, status: CasStatus, _: int) -> bool:
    change, control = machine._changing, machine.control
    is_mark = status is CasStatus.APPLIED and machine.phase is Phase.HOT
    return is_mark and change is not None and control is not None and change.value.closing_ms > control.closing_ms


def _finishes(machine: PartitionMachine, status: CasStatus, _: int) -> bool:
    return status is CasStatus.APPLIED and machine.phase is Phase.COUNT


def _performs(kind: type[Request] | tuple[type[Request], ...], fits: Callable[[Any], bool] = always) -> Point:
    """A step of a procedure has been done, the next one has not begun."""

    def asks(_: ProcedureRunner, request: Request) -> bool:
        return isinstance(request, kind) and fits(request)

    return Point(ProcedureRunner, "perform", after=True, asks=asks)


def _has_dead_letters(_: SqliteStore, __: object, dead_letters: Sequence[DeadLetter]) -> bool:
    return len(dead_letters) > 0


def _of_table(table: Table) -> Callable[[TryCas], bool]:
    return lambda request: request.change.key.table is table


def _of_mark(kind: MarkKind) -> Callable[[SetMarks | MarkAndLook], bool]:
    return lambda request: any(mark.kind is kind for mark in request.marks)


POINTS = {
    # A call that stores.
    "before the commit": Point(
        Commit, "flush", after=True, asks=lambda c: _has_callers_rows([w.message for w in c._messages])
    ),
    "committed": Point(SqliteStore, "append", after=True, asks=lambda _, messages: _has_callers_rows(messages)),
    "rows appended": _performs(AppendRows),
    "key changed": _performs(TryCas, _of_table(Table.KEYS)),
    # Cancel and reschedule.
    "cancel marked": _performs((SetMarks, MarkAndLook), _of_mark(MarkKind.CANCELLED)),
    "cancel asked": _performs((AskToEnd, AskToEndMany)),
    "move changed": _performs(TryCas, _of_table(Table.MOVES)),
    "move written": _performs(AppendRows, lambda request: not _has_callers_rows(request.messages)),
    "move marked": _performs(SetMarks, _of_mark(MarkKind.MOVED)),
    "move asked": _performs(AskToMove),
    # Delivery.
    "handed to the stream": Point(WorkStream, "push", after=True, asks=_is_deliver),
    "ack received": Point(Delivery, "settle"),
    "settle before its commit": Point(stores, "write_settled", after=True),
    "settled": Point(SqliteStore, "settle", after=True),
    "burying": Point(SqliteStore, "settle", asks=_has_dead_letters),
    "buried": Point(SqliteStore, "settle", after=True, asks=_has_dead_letters),
    "carry recorded": Point(EffectRunner, "_write_carried"),
    "carried": Point(PartitionMachine, "carried_written"),
    # The life of a partition.
    "secret made": Point(bootstrap, "cluster_settings", after=True),
    "schema made": Point(stores, "migrate", after=True),
    "taken over": Point(PartitionMachine, "control_changed", asks=_takes_over),
    "recovered": Point(PartitionMachine, "settled_read", after=True),
    "page loaded": Point(
        PartitionMachine, "page_read", after=True, asks=lambda m, page, _: m.phase is Phase.LOAD and not page.done
    ),
    "closing raised": Point(PartitionMachine, "control_changed", asks=_closes),
    "finishing flagged": Point(PartitionMachine, "flagged"),
    "counted": Point(PartitionMachine, "counted"),
    "finished": Point(PartitionMachine, "control_changed", asks=_finishes),
    "finish recorded": Point(SqliteStore, "finish_bucket", after=True, asks=lambda *_, finished: finished),
    "dropping": Point(stores, "drop_slice", after=True, given=bool),
    "dropped": Point(CatalogueDays, "dropped", after=True),
    "splitting": Point(commits, "take_slice", after=True, given=lambda taken: bool(taken[1])),
}


def install(point: Point, nth: int) -> None:
    """The nth time is the last."""
    calls = count(1)

    def strike() -> None:
        if next(calls) == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    original = getattr(point.owner, point.name)
    wrap = _wrapped_async if inspect.iscoroutinefunction(original) else _wrapped
    setattr(point.owner, point.name, wrap(original, point, strike))


def _wrapped(original: Callable[..., Any], point: Point, strike: Callable[[], None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any call
        counts = point.asks(*args, **kwargs)
        if counts and not point.after:
            strike()
        result = original(*args, **kwargs)
        if counts and point.after and point.given(result):
            strike()
        return result

    return call


def _wrapped_async(original: Callable[..., Any], point: Point, strike: Callable[[], None]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - any call
        counts = point.asks(*args, **kwargs)
        if counts and not point.after:
            strike()
        result = await original(*args, **kwargs)
        if counts and point.after and point.given(result):
            strike()
        return result

    return call
