"""Registers for procedures that need nothing else: no rows, no holders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from timerd.core.protocol import ReadRegister, ReadRegisters, Request, TryCas
from timerd.model.errors import StoreUnknown
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.ports import Registers

# A register that does not change and does not say why: the store may be full, and somebody waits for an answer.
CAS_TRIES = 4
CAS_PAUSE_S = 0.1


async def try_cas_many(store: Registers, changes: Sequence[Cas]) -> list[CasResult]:
    """As `try_cas`, of many registers in one trip. What is not known of some of them is asked for one by one."""
    results = list(await store.cas(changes))
    for number, result in enumerate(results):
        if result.status is CasStatus.UNKNOWN:
            results[number] = await try_cas(store, changes[number], was_tried=True)
    return results


async def try_cas(store: Registers, change: Cas, *, was_tried: bool = False) -> CasResult:
    """An unknown outcome is settled by a serial read. It stays UNKNOWN where the register has moved on since: it was
    refused, or done and then overwritten by somebody else. Raises StoreUnknown where the store takes no changes in:
    what the procedure has written before stays written."""
    for tries in range(CAS_TRIES):
        result = (await store.cas([change]))[0]
        is_first = not tries and not was_tried
        # An earlier try may be done by now, and be what refuses this one.
        if result.status is CasStatus.APPLIED or (result.status is CasStatus.REFUSED and is_first):
            return result
        unknown = result.status is CasStatus.UNKNOWN
        current = (await store.read([change.key]))[0] if unknown else result.current
        if current != change.expected:
            return CasResult(CasStatus.APPLIED if current == change.value else CasStatus.UNKNOWN, current)
        await asyncio.sleep(CAS_PAUSE_S)
    raise StoreUnknown("The store takes no changes in now; look at the disk's free space and health.")


class RegisterRunner:
    """Implements services.performing.Performs."""

    def __init__(self, store: Registers) -> None:
        self._store = store

    async def perform(self, request: Request) -> object:
        match request:
            case ReadRegister(key):
                return (await self._store.read([key]))[0]
            case ReadRegisters(keys):
                return list(await self._store.read(keys))
            case TryCas(change):
                return await try_cas(self._store, change)
            case _:
                raise TypeError(f"{type(request).__name__} is no request for a register.")
