"""The broken variants that places.pml names, one switch each: where the rows of a call go that is tried more than once.
Patches for tests alone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from unittest.mock import patch

import numpy as np

import timerd.core.protocol.message_place as place_module
import timerd.services.engine.engine as engine_module
from tests.simulator.variants import Variant
from timerd.core.protocol.message_place import Call
from timerd.core.protocol.procedures import Procedure, ReadRegister
from timerd.model.first_reply import Times
from timerd.model.partition import Partition
from timerd.model.registers import Instants, place_key
from timerd.model.rows import RowGroup
from timerd.services.engine.verbs import NewTasks


def ends_not_looked_at() -> AbstractContextManager[object]:
    """NOLOOK: what was passed is placed anew, whether or not it has ended."""

    def not_ended(partition: Partition, rows: RowGroup, call: Call) -> Procedure[RowGroup]:
        yield ReadRegister(place_key(call.prefix))
        return rows

    return patch.object(place_module, "_not_ended", not_ended)


def register_not_compared() -> AbstractContextManager[object]:
    """NOCAS: each try goes by what it has chosen itself."""

    def beyond(latest_ms: int, own_ms: int, call: Call) -> Procedure[Instants]:
        yield ReadRegister(place_key(call.prefix))
        return Instants((own_ms,))

    return patch.object(place_module, "_instants_beyond", beyond)


def from_its_own_instant() -> AbstractContextManager[object]:
    """STARTNOW: a late try begins where it is by then."""

    def places(tasks: NewTasks, asked_ms: Times, now_ms: int) -> Times:
        return np.maximum(asked_ms, now_ms)

    return patch.object(engine_module, "first_places", places)


SWITCHES: dict[str, Variant] = {
    "places NOLOOK": ends_not_looked_at,
    "places NOCAS": register_not_compared,
    "places STARTNOW": from_its_own_instant,
}
