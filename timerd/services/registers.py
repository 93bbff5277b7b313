"""Registers for procedures that need nothing else: no rows, no holders."""

from __future__ import annotations

import asyncio

from timerd.core.procedures import ReadRegister, ReadRegisters, Request, TryCas
from timerd.model.errors import StoreUnknown
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.ports import Registers

# A register that does not change and does not say why: the store may be full, and somebody waits for an answer.
CAS_TRIES = 4
CAS_PAUSE_S = 0.1


async def try_cas(store: Registers, change: Cas) -> CasResult:
    """An unknown outcome is settled by a serial read. Raises StoreUnknown where the store takes no changes in."""
    for _ in range(CAS_TRIES):
        result = (await store.cas([change]))[0]
        if result.status is not CasStatus.UNKNOWN:
            return result
        current = (await store.read([change.key]))[0]
        if current != change.expected:
            return CasResult(CasStatus.APPLIED if current == change.value else CasStatus.REFUSED, current)
        await asyncio.sleep(CAS_PAUSE_S)
    raise StoreUnknown("The store takes no changes in now; look at the disk's free space and health.")


class RegisterPerformer:
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
