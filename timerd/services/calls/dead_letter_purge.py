"""PurgeDeadLetters: what nobody will redrive goes for good. First it is said how much that is."""

from __future__ import annotations

from collections import Counter
from functools import partial

from timerd.services.calls.fields import namespace_of, queue_of, request_id_of
from timerd.services.calls.page_tokens import after_of, page_token
from timerd.services.calls.queries import open_bounds
from timerd.services.calls.reads import DEAD_AFTER_BYTES, dead_after
from timerd.services.calls.repeats import answered_once
from timerd.services.engine.verbs import Verbs
from timerd.v1 import timer_service_pb2 as wire

# They are read with their payloads.
READ_AT_ONCE = 500


class DeadLetterPurge:
    """`changed` counts what was removed."""

    def __init__(self, verbs: Verbs, changed: Counter[str]) -> None:
        self._verbs = verbs
        self._changed = changed

    async def purge_dead_letters(self, request: wire.PurgeDeadLettersRequest) -> wire.PurgeDeadLettersResponse:
        """A dry run counts the same dead letters, whatever was counted before."""
        namespace = namespace_of(request.namespace)
        request_id_of(request.request_id)
        if not request.force:
            return await self._purge(namespace, request)
        work = partial(self._purge, namespace, request)
        return await answered_once(self._verbs, namespace, request, wire.PurgeDeadLettersResponse, work)

    async def _purge(self, namespace: str, request: wire.PurgeDeadLettersRequest) -> wire.PurgeDeadLettersResponse:
        queue = queue_of(request.queue, "queue") if request.queue else ""
        after = after_of(request, DEAD_AFTER_BYTES) or b""
        found = await self._verbs.dead_letters(namespace, queue, *open_bounds(request), after, READ_AT_ONCE)
        halting = await self._verbs.halting(found)
        free = [letter for letter in found if letter.task_id not in halting]
        purged = await self._verbs.purge_dead_letters(free) if request.force and free else len(free)
        self._changed["dead_letters_purged"] += purged if request.force else 0
        return wire.PurgeDeadLettersResponse(
            purged=purged,
            halting=len(found) - len(free),
            dry_run=not request.force,
            next_page_token=page_token(request, dead_after(found[-1])) if len(found) >= READ_AT_ONCE else "",
        )
