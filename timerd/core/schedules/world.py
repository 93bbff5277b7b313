"""What the procedures of schedules are given, and the small steps that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from timerd.core.protocol import Call, FindEntries, Forgotten, Procedure, ReadRegister, place_message
from timerd.core.schedules.spec_times import SpecTimes, times_now
from timerd.core.schedules.zones import OwnZones, computed_by
from timerd.model.errors import StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey, place_key
from timerd.model.rows import RowGroup, concat
from timerd.model.schedules import Definition, Schedule, definition_key
from timerd.model.storage import Append

# What is kept of a row that came too late for its place.
KEPT_MS = 25 * 3_600_000
TOGETHER = bytes(12)


def _nobody(namespace: str, schedule_id: str, digest: bytes) -> None:
    """A schedule that waits looks again by itself."""


def _silent(before: Schedule, after: Schedule) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True)
class World:
    """`shard_of` says where a new row of a bucket goes, `times` what a definition's instants are, `token` makes a name
    that nobody else has. `watches` is told for the end of which task, by its digest, a schedule waits; `recorded` is
    told of each record and change that was applied, after what was there before. Without `zones` all instances have
    the same data of time zones."""

    now_ms: Callable[[], int]
    shard_of: Callable[[bytes, int], int]
    times: Callable[[str, Definition], SpecTimes]
    token: Callable[[], str]
    retention_ms: int
    watches: Callable[[str, str, bytes], None] = _nobody
    recorded: Callable[[Schedule, Schedule], None] = _silent
    zones: OwnZones | None = None

    @property
    def tzdata(self) -> str:
        """The release by which this instance computes."""
        return self.zones.version if self.zones is not None else ""

    def at_one_moment(self) -> World:
        """For what is computed without a step in between: the clock is read once."""
        now_ms = self.now_ms()
        return replace(self, now_ms=lambda: now_ms)


class MissedPlace(Exception):
    """Some row is too late for its place: each goes by itself, for its next place is a matter of its own."""


def read_schedule(key: RegisterKey) -> Procedure[tuple[Schedule | None, bytes | None]]:
    stored: bytes | None = yield ReadRegister(key)
    return (Schedule.from_bytes(stored) if stored is not None else None), stored


def definition_of(
    namespace: str, schedule_id: str, uid: str, revision: int, attempt: str
) -> Procedure[Definition | None]:
    """None: its revision is over, and it was removed."""
    key = definition_key(namespace, schedule_id, uid, revision, attempt)
    found: list[bytes | None] = yield FindEntries([key])
    return Definition.from_bytes(found[0]) if found[0] is not None else None


def current_definition(namespace: str, schedule_id: str, entry: Schedule) -> Procedure[Definition]:
    found = yield from definition_of(namespace, schedule_id, entry.uid, entry.revision, entry.attempt)
    if found is None:
        raise StoreUnknown("The schedule was changed while it was read.")
    return found


def times_of(schedule_id: str, entry: Schedule, definition: Definition, world: World) -> Procedure[SpecTimes]:
    """Z3. Raises ZonesDiffer: others are to compute them."""
    yield from computed_by(world.zones, definition.spec.zone, entry.zones, world.now_ms())
    return times_now(entry, definition.spec, world.times(schedule_id, definition))


OccurrenceRow = tuple[bytes, Partition, RowGroup]


def place_rows(rows: Sequence[OccurrenceRow], world: World) -> Procedure[None]:
    """W3: each row (its message's prefix, its place) as a repeat: one that was met as fired, ended or withdrawn stays
    so. One whose end is not kept any longer counts as ended. Raises NotTakenIn, and is to be repeated."""
    now_ms = world.now_ms()
    if len(rows) > 1:
        try:
            yield from _all_in_time(rows, _call(TOGETHER, now_ms, world))
        except (MissedPlace, Forgotten):
            pass
        else:
            return
    for prefix, partition, row in rows:
        try:
            yield from place_message(Append(((partition, row),)), _call(prefix, now_ms, world))
        except Forgotten:
            continue


def _call(prefix: bytes, now_ms: int, world: World) -> Call:
    return Call(prefix, now_ms, now_ms + KEPT_MS, world.retention_ms, may_be_withdrawn=True)


def _all_in_time(rows: Sequence[OccurrenceRow], call: Call) -> Procedure[None]:
    groups: dict[Partition, list[RowGroup]] = {}
    for _, partition, row in rows:
        groups.setdefault(partition, []).append(row)
    yield from in_time(Append(tuple((partition, concat(parts)) for partition, parts in groups.items())), call)


def in_time(message: Append, call: Call) -> Procedure[None]:
    """Rows of which each has a message of its own, in one append. Raises MissedPlace before any is pointed
    elsewhere, and Forgotten."""
    placing = place_message(message, call)
    try:
        request = next(placing)
        while True:
            if isinstance(request, ReadRegister) and request.key == place_key(call.prefix):
                raise MissedPlace
            try:
                answer = yield request
            except Exception as error:  # noqa: BLE001 - it is for the procedure inside
                request = placing.throw(error)
            else:
                request = placing.send(answer)
    except StopIteration:
        return
