"""A task that is carried on and on gets a new home in `moves` before its old one is forgotten (protocol section 5).

A look-up begins at the id's home and follows the carries; the home is dropped when its history is over. So a row that
is carried far from there, or parked for who knows how long, is named in the register as if it had moved to that place.
The generation stays: which rows may fire does not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from timerd.core.protocol.keys import keep
from timerd.core.protocol.lookup import settled_move
from timerd.core.protocol.move import expiry
from timerd.core.protocol.procedures import Procedure, ReadRegisters, TryCas
from timerd.model.identity import ATTEMPT_BITS, RowKey, generation_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Move, MoveState, Place, RegisterKey, move_key, name_key
from timerd.model.rows import FLAG_CARRIED, RowGroup
from timerd.model.storage import Cas, CasResult, CasStatus


@dataclass(frozen=True, slots=True)
class Relocated:
    """A carried row in its new place; `home` as its id says."""

    home: Place
    place: Place
    fire_at_ms: int
    # Of the key that its caller chose.
    name: RegisterKey | None = None


def relocated_rows(partition: Partition, rows: RowGroup, history_ms: int) -> list[Relocated]:
    """Of rows that were just carried here: those that may outlive their home. Half the history is left for the hops
    in between, which are not named."""
    if not bool((rows.columns["flags"] & FLAG_CARRIED).any()):
        return []
    away = np.flatnonzero(_outlive(partition, rows, history_ms))
    found = []
    for n, key in zip(away.tolist(), rows.select(away).keys(), strict=True):
        extra = rows.extra_of(n)
        home = Partition(TIME_SCOPE, bucket_of(extra.home_position_ms), extra.home_shard)
        at_home = Place(home, RowKey(extra.home_position_ms, key.digest, 0))
        name = name_key(rows.template_of(n).namespace, extra.key) if extra.key else None
        found.append(Relocated(at_home, Place(partition, key), int(rows.columns["fire_at_ms"][n]), name))
    return found


def _outlive(partition: Partition, rows: RowGroup, history_ms: int) -> npt.NDArray[np.bool_]:
    columns = rows.columns
    homes = np.array([-1, *(extra.home_position_ms for extra in rows.extras)], np.int64).take(columns["extra"])
    # What was moved is looked for from where it was moved to, which may be long before its home.
    was_moved = columns["version"] >> ATTEMPT_BITS != 0
    is_far = (columns["position_ms"] - homes > history_ms // 2) | (partition.scope != TIME_SCOPE)
    outlive: npt.NDArray[np.bool_] = (homes >= 0) & (is_far | was_moved)
    return outlive


def relocate(found: Sequence[Relocated], now_ms: int, history_ms: int) -> Procedure[None]:
    """After the rows are durable, before `verified` passes the record that carried them."""
    stored = yield ReadRegisters([move_key(each.place.key.digest) for each in found])
    for each, first in zip(found, stored, strict=True):
        seen = first
        while not (yield from _name(each, seen, now_ms, history_ms)):
            seen = yield from settled_move(each.place.key.digest)


def _name(each: Relocated, seen: bytes | None, now_ms: int, history_ms: int) -> Procedure[bool]:
    """False: the register has changed or is undecided; what a mover left is failed first (rule H2)."""
    before = Move.from_bytes(seen) if seen is not None else None
    if before is not None and (before.state is MoveState.MOVING or _is_newer(before, each)):
        return before.state is not MoveState.MOVING
    if before is not None and _is_near(before.place, each.place, history_ms):
        return True
    after = _after(before, each)
    after = replace(after, expires_at_ms=expiry(after.latest_ms, now_ms, history_ms))
    change = Cas(move_key(each.place.key.digest), seen, after.to_bytes(), after.expires_at_ms)
    result: CasResult = yield TryCas(change)
    if each.name is not None and result.status is CasStatus.APPLIED:
        yield from keep(each.name, each.place.key.digest, after.latest_ms)
    return result.status is CasStatus.APPLIED


def _is_newer(before: Move, each: Relocated) -> bool:
    """It moved on: the row is over, or a later one was named already."""
    known, here = before.place.key, each.place.key
    return known.version > here.version or (known.version == here.version and known.position_ms >= here.position_ms)


def _is_near(known: Place, here: Place, history_ms: int) -> bool:
    """The place that is named already is kept long enough to lead here."""
    are_plain = known.partition.scope == TIME_SCOPE == here.partition.scope
    return are_plain and here.key.position_ms - known.key.position_ms <= history_ms // 2


def _after(before: Move | None, each: Relocated) -> Move:
    position_ms = each.place.key.position_ms
    if before is None:
        number = generation_of(each.place.key.version)
        latest_ms = max(each.home.key.position_ms, position_ms)
        return Move(number, MoveState.MOVED, each.home, each.place, "", latest_ms, each.fire_at_ms)
    request, fire_at_ms, asked_ms = before.request, before.fire_at_ms, before.asked_ms
    if before.state is not MoveState.MOVED:
        request, fire_at_ms, asked_ms = "", each.fire_at_ms, 0
    return replace(
        before,
        state=MoveState.MOVED,
        source=before.place,
        target=each.place,
        request=request,
        fire_at_ms=fire_at_ms,
        latest_ms=max(before.latest_ms, position_ms),
        asked_ms=asked_ms,
    )
