"""The worker of the slots of its instance: of cycles whose members timerd keeps."""

from __future__ import annotations

import logging
from typing import Any

from timerd.core.taken import SLOTS
from timerd.model.cycles import CYCLE, RosterTurn
from timerd.model.errors import TimerdError
from timerd.services.background import note
from timerd.services.schedules.rosters import Rosters
from timerd.services.schedules.ticking import TickWorker

_log = logging.getLogger(__name__)


class SlotWorker(TickWorker):
    """A slot that cannot be filled comes again, until it begins anew."""

    queues = (SLOTS,)

    def __init__(self, rosters: Rosters, *given: Any) -> None:  # noqa: ANN401 - as for TickWorker
        super().__init__(*given)
        self._rosters = rosters

    async def _carry_out(self, queue: str, payload: bytes, attempt: int) -> str:
        turn = RosterTurn.from_bytes(payload)
        cycle_id = turn.schedule_id.removeprefix(CYCLE)
        try:
            await self._rosters.expand(turn)
        except TimerdError as failed:
            _log.warning("slot %d of the cycle %r is filled again: %s", turn.slot, cycle_id, failed)
            return str(failed)
        except Exception as failed:  # noqa: BLE001 - noted, and tried again
            note("ticks", failed, f"slot {turn.slot} of the cycle {cycle_id!r} is filled again")
            return f"{type(failed).__name__}: {failed}"
        return ""
