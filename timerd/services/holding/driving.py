"""Runs the core's procedures: what one yields is asked of somebody who performs it, and the answer goes back in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from timerd.core.protocol import (
    AppendRows,
    AskToEnd,
    AskToEndEach,
    AskToEndMany,
    MarkAndLook,
    Procedure,
    Request,
    SetMarks,
    TryCas,
    TryCasMany,
    WriteEntries,
)
from timerd.model.errors import StoreUnavailable, StoreUnknown

Returned = TypeVar("Returned")


class Performs(Protocol):
    """Answers one request of a procedure."""

    async def perform(self, request: Request) -> object: ...


WRITES = (SetMarks, MarkAndLook, AppendRows, TryCas, TryCasMany, AskToEnd, AskToEndEach, AskToEndMany, WriteEntries)


async def drive(procedure: Procedure[Returned], runner: Performs) -> Returned:
    """Runs a procedure to its end; errors of the store are raised inside it, where it waits. What fails after something
    was written has an unknown outcome, though the failing step itself wrote nothing (guarantee G2)."""
    try:
        request = next(procedure)
    except StopIteration as done:
        value: Returned = done.value
        return value
    return await drive_on(procedure, request, runner)


async def drive_on(
    procedure: Procedure[Returned], request: Request, runner: Performs, *, has_written: bool = False
) -> Returned:
    """As `drive`, of one that has asked for `request`."""
    try:
        while True:
            try:
                answer = await runner.perform(request)
            except StoreUnavailable as error:
                request = procedure.throw(unknown_of(error) if has_written else error)
            except Exception as error:  # noqa: BLE001 - the procedure decides
                has_written |= isinstance(request, WRITES)
                request = procedure.throw(error)
            else:
                has_written |= isinstance(request, WRITES)
                request = procedure.send(answer)
    except StopIteration as done:
        value: Returned = done.value
        return value


def unknown_of(error: StoreUnavailable) -> StoreUnknown:
    """Of a step that is not the first one to write."""
    return StoreUnknown(f"Some of it was written, then the store went away: {error}")


@contextmanager
def after_a_write() -> Iterator[None]:
    """What fails in here leaves the outcome unknown, for the call has written before."""
    try:
        yield
    except StoreUnavailable as error:
        raise unknown_of(error) from error
