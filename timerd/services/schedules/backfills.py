"""What the calls of backfills ask: the core's procedures driven against the store and the holders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from timerd.core.protocol import Procedure
from timerd.core.schedules.backfill import (
    KEPT_MS,
    PastSpan,
    begin_backfill,
    cancel_backfill,
    no_backfill,
    read_backfill,
)
from timerd.core.schedules.changes import Name, check_alive
from timerd.core.schedules.world import World, read_schedule
from timerd.model.backfills import Backfill, BackfillName, BackfillState, backfills_place, listed_backfill
from timerd.model.errors import NotFound
from timerd.model.storage import Entry, EntryKey
from timerd.ports import Store
from timerd.services.holding.driving import Performs, Returned, drive
from timerd.services.schedules.ticking import CALL_PAUSE_S, until_decided

# Those that are cancelled with their schedule, at a time.
PAGE = 200
HOUR_MS = 3_600_000


class Backfilled(NamedTuple):
    """A backfill as calls show it."""

    name: BackfillName
    entry: Backfill


class Backfills:
    """Of one instance."""

    def __init__(self, store: Store, runner: Performs, world: World) -> None:
        self._store = store
        self._runner = runner
        self._world = world

    async def begin(self, name: BackfillName, request: str, span: PastSpan) -> Backfilled:
        return Backfilled(name, await self._decided(lambda: begin_backfill(name, request, span, self._world)))

    async def cancel(self, name: BackfillName, request: str) -> Backfilled:
        return Backfilled(name, await self._decided(lambda: cancel_backfill(name, request, self._world)))

    async def _decided(self, make: Callable[[], Procedure[Returned]]) -> Returned:
        return await until_decided(lambda: drive(make(), self._runner), CALL_PAUSE_S)

    async def get(self, name: BackfillName) -> Backfilled:
        entry, _ = await drive(read_backfill(name), self._runner)
        if entry is None or entry.state is BackfillState.VOID:
            raise no_backfill(name)
        return Backfilled(name, entry)

    async def page(
        self, namespace: str, schedule_id: str, after: bytes, limit: int
    ) -> tuple[list[Backfilled], bytes | None]:
        """Those of a schedule behind a name, and where the next ones are; None: there are no more."""
        listed = await self._store.list_entries(backfills_place(namespace, schedule_id), after, limit)
        found = await self._there(namespace, schedule_id, listed)
        return found, listed[-1].key.name if len(listed) == limit else None

    async def check_schedule(self, namespace: str, schedule_id: str) -> None:
        """Raises NotFound where it is not there."""
        name = Name(namespace, schedule_id)
        check_alive(name, (await drive(read_schedule(name.key), self._runner))[0])

    async def _there(self, namespace: str, schedule_id: str, listed: Sequence[Entry]) -> list[Backfilled]:
        """A name is announced before its backfill is there. One that is left over is removed."""
        if not listed:
            return []
        said = [listed_backfill(each.key.name) for each in listed]
        names = [BackfillName(namespace, schedule_id, backfill_id) for backfill_id, _, _ in said]
        stored = await self._store.read([name.key for name in names])
        found, over = [], list[EntryKey]()
        for each, (_, uid, made_ms), name, value in zip(listed, said, names, stored, strict=True):
            entry = Backfill.from_bytes(value) if value is not None else None
            if entry is not None and entry.uid == uid:
                found.append(Backfilled(name, entry))
            elif made_ms < self._world.now_ms() - KEPT_MS - HOUR_MS:
                over.append(each.key)
        if over:
            await self._store.remove_entries(over)
        return found

    async def cancel_all(self, namespace: str, schedule_id: str, request: str) -> None:
        """Of a schedule that is deleted."""
        after: bytes | None = b""
        while after is not None:
            found, after = await self.page(namespace, schedule_id, after, PAGE)
            for each in found:
                if each.entry.state is BackfillState.RUNNING or each.entry.ahead.slots:
                    await self._cancel_if_there(each.name, request)

    async def _cancel_if_there(self, name: BackfillName, request: str) -> None:
        try:
            await self.cancel(name, request)
        except NotFound:
            return
