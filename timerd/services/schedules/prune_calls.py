"""Removes the schedules of an application that its code declares no longer: those of its labels, but for some ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message

from timerd.core.schedules.changes import Name, deleted
from timerd.model.errors import Aborted, Invalid, NotFound
from timerd.services.calls.fields import namespace_of, request_id_of
from timerd.services.calls.templates import checked_labels
from timerd.services.engine.verbs import Verbs
from timerd.services.holding.driving import after_a_write
from timerd.services.schedules.schedule_calls import name_of, once, place_of, token_of
from timerd.services.schedules.schedules import Schedules, Shown, request_hash
from timerd.v1 import schedule_service_pb2 as wire

MAX_KEPT = 10_000
# Schedules that one call looks at: the next page goes on.
EXAMINED = 1_000
AT_ONCE = 20


class PruneCalls:
    """One method a call: request -> reply, or one of model.errors."""

    def __init__(self, schedules: Schedules, verbs: Verbs) -> None:
        self._schedules = schedules
        self._verbs = verbs

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {"PruneSchedules": once(self._verbs, self.prune, wire.PruneSchedulesResponse)}

    async def prune(self, request: wire.PruneSchedulesRequest) -> wire.PruneSchedulesResponse:
        namespace, labels = namespace_of(request.namespace), dict(checked_labels(dict(request.labels)))
        if not labels:
            raise Invalid(
                "The call names no labels: give those that your code sets on all its schedules, so that those of "
                "others are safe.",
                "labels",
            )
        keep = _kept(namespace, request.keep)
        found, place = await self._schedules.page(namespace, place_of(request), EXAMINED)
        chosen = [each for each in found if _is_of(each, labels) and each.name.schedule_id not in keep]
        if request.force:
            chosen = await self._deleted(chosen, request)
        return wire.PruneSchedulesResponse(
            schedule_ids=[each.name.schedule_id for each in chosen],
            dry_run=not request.force,
            next_page_token=token_of(request, place) if place is not None else "",
        )

    async def _deleted(self, chosen: Sequence[Shown], request: wire.PruneSchedulesRequest) -> list[Shown]:
        """Those that are as they were seen; what was changed meanwhile is declared by somebody."""
        deleted_now: list[Shown] = []
        request_id = request_id_of(request.request_id)

        async def work(each: Shown) -> None:
            content = each.name.schedule_id.encode()
            call = request_hash("PruneSchedules", each.name.namespace, request_id, content)
            try:
                await self._schedules.change(each.name, call, each.entry.revision, deleted())
            except (Aborted, NotFound):
                return
            deleted_now.append(each)

        with after_a_write():
            for at in range(0, len(chosen), AT_ONCE):
                await asyncio.gather(*map(work, chosen[at : at + AT_ONCE]))
        return deleted_now


def _kept(namespace: str, ids: Sequence[str]) -> set[str]:
    """Raises Invalid."""
    if len(ids) > MAX_KEPT:
        raise Invalid(
            f"The call keeps {len(ids):,} schedules: at most {MAX_KEPT:,} are allowed. Give groups of them a label of "
            "their own, and prune by that.",
            "keep",
        )
    kept: set[str] = set()
    for number, schedule_id in enumerate(ids):
        try:
            name: Name = name_of(namespace, schedule_id)
        except Invalid as error:
            raise Invalid(str(error), f"keep[{number}]", error.reason) from None
        kept.add(name.schedule_id)
    return kept


def _is_of(shown: Shown, labels: Mapping[str, str]) -> bool:
    return labels.items() <= dict(shown.definition.labels).items()
