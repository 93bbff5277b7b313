"""Where the rows of a call go, so that each of its tries finds the same place (protocol section 4, rules P1-P3;
tests/models/places.pml). For stores that do not know a call that comes again.

A row is written at its task's own instant, which every try computes from the call. That place is left only when the
control row says that `verified` is beyond it and no record tells of an end there: then nobody has read the row, and
nobody ever will, whichever instance holds the partition. The next place is an instant in the register of the message,
where the first one that is written counts. So a task is taken in at one place, whichever try comes first, last or late.
Only what is that late pays for it: two serial reads and one compare-and-set a message.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from timerd.core.partition import Offered
from timerd.core.protocol.insertion import Inserted, Placed, noted, placed_again, taken_along
from timerd.core.protocol.procedures import (
    AppendRows,
    Ending,
    Find,
    FindSettledMany,
    HintRows,
    OfferRows,
    Procedure,
    ReadBucket,
    ReadRegister,
    ReadRegisters,
    SetMarks,
    TryCas,
)
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Control, Instants, Move, MoveState, control_key, move_key, place_key
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome
from timerd.model.storage import Append, Appended, BucketEntry, Cas, CasResult, CasStatus, Found, Mark, MarkKind

# A task is too late for its place a few times in a row only where `closing` runs ahead of this instance's clock.
MAX_PLACES = 8
# Rows that are due no longer ago are written without a look whether `verified` has passed their place.
JUST_NOW_MS = 1_000
TAKEN_IN = (Offered.ADOPTED, Offered.ALREADY_HAVE)
NOT_TAKEN_IN = (None, Outcome.FORWARDED)


class NotTakenIn(Exception):
    """The holder of the place has not said that the row is taken in, and may have taken it in: to be asked again."""


class Forgotten(Exception):
    """How a row has ended at its place is not kept any longer, so nobody can tell whether it was ever there."""


@dataclass(frozen=True, slots=True)
class Call:
    """What all tries of a call share, and when this one came. `kept_until_ms`: of the register, if it is written.
    `retention_ms`: how long the outcomes of a finished partition are kept. `may_be_withdrawn`: its tasks are recorded
    before they are written, and who withdraws one may come first."""

    prefix: bytes
    now_ms: int
    kept_until_ms: int
    retention_ms: int
    may_be_withdrawn: bool = False


@dataclass(slots=True)
class _Round:
    """What became of rows at one place each."""

    hints: list[Placed] = field(default_factory=list)
    passed: list[Placed] = field(default_factory=list)
    # Somebody may have taken them in.
    unsure: list[Placed] = field(default_factory=list)


def place_message(message: Append, call: Call) -> Procedure[Inserted]:
    """Stores all rows of the message, each at its one place, whatever earlier tries have done. Raises NotTakenIn (to be
    repeated) and Forgotten."""
    done = Inserted()
    for _ in range(MAX_PLACES):
        met = _Round()
        message = yield from _not_passed(message, call, met)
        if message.groups or message.spread is not None:
            appended: Appended = (yield AppendRows([message]))[0]
            for partition, rows in (*message.groups, *noted(message, appended)):
                yield from _see_to(partition, rows, appended, met)
            yield HintRows([*met.hints, *met.unsure], appended.controls, may_repeat=True)
        if met.unsure:
            raise NotTakenIn
        message = yield from _onward(met.passed, call, done)
        if not message.groups:
            return done
    raise NotTakenIn


def is_stored(groups: Sequence[tuple[Partition, RowGroup]], prefix: bytes) -> Procedure[bool]:
    """Whether any try of the call has stored any of its rows; of one that is on its way nobody can know."""
    for partition, rows in groups:
        found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in rows.keys()])
        if any(len(each.rows) for each in found):
            return True
        endings: Sequence[Ending] = yield FindSettledMany(partition, rows.keys())
        if any(ending.outcome is not None for ending in endings):
            return True
    stored: bytes | None = yield ReadRegister(place_key(prefix))
    return stored is not None


def stored_among(groups: Sequence[tuple[Partition, RowGroup]], prefix: bytes) -> Procedure[set[bytes]]:
    """Which of its rows some try of the call has stored, by their digests: at their first places or at later ones."""
    stored: bytes | None = yield ReadRegister(place_key(prefix))
    later = Instants.from_bytes(stored).later_ms if stored is not None else ()
    there: set[bytes] = set()
    for partition, rows in groups:
        first = rows.keys()
        there |= yield from _there(partition, first)
        for at_ms in later:
            place = Partition(TIME_SCOPE, bucket_of(at_ms), partition.shard)
            there |= yield from _there(place, [key._replace(position_ms=at_ms) for key in first])
    return there


def _there(partition: Partition, keys: Sequence[RowKey]) -> Procedure[set[bytes]]:
    found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in keys])
    endings: Sequence[Ending] = yield FindSettledMany(partition, keys)
    each = zip(keys, found, endings, strict=True)
    return {key.digest for key, place, ending in each if len(place.rows) or ending.outcome is not None}


def origin_of_delays(call: Call) -> Procedure[int]:
    """What the delays of a call count from that does not say when it was made: when its first try came."""
    key, mine = place_key(call.prefix), Instants(origin_ms=call.now_ms)
    result: CasResult = yield TryCas(Cas(key, None, mine.to_bytes(), call.kept_until_ms))
    if result.status is CasStatus.APPLIED:
        return call.now_ms
    stored: bytes | None = yield ReadRegister(key)
    return Instants.from_bytes(stored).origin_ms or call.now_ms if stored is not None else call.now_ms


def _not_passed(message: Append, call: Call, met: _Round) -> Procedure[Append]:
    """Without the rows that `verified` has passed already, which need not be written."""
    late = [p for p, rows in message.groups if int(rows.columns["position_ms"].min()) < call.now_ms - JUST_NOW_MS]
    if not late:
        return message
    stored: Sequence[bytes | None] = yield ReadRegisters([control_key(partition) for partition in late])
    controls = dict(zip(late, stored, strict=True))
    groups: list[tuple[Partition, RowGroup]] = []
    for partition, rows in message.groups:
        control = controls.get(partition)
        left = _without_passed(partition, rows, Control.from_bytes(control), met) if control is not None else rows
        if len(left):
            groups.append((partition, left))
    return Append(tuple(groups), spread=message.spread)


def _without_passed(partition: Partition, rows: RowGroup, control: Control, met: _Round) -> RowGroup:
    is_passed = rows.columns["position_ms"] < control.verified_ms
    if bool(is_passed.any()):
        met.passed.append((partition, rows.select(np.flatnonzero(is_passed)), control.closing_ms))
        return rows.select(np.flatnonzero(~is_passed))
    return rows


def _see_to(partition: Partition, rows: RowGroup, appended: Appended, met: _Round) -> Procedure[None]:
    """P1: the rows are durable, and this control row was read after that."""
    source = appended.sources.get(partition, 0)
    stored = appended.controls.get(partition)
    if stored is None and partition in appended.finishing:
        stored = yield from _closed_for_good(partition)
        if stored is None:
            met.unsure.append((partition, rows, source))
            return
    control = Control.from_bytes(stored) if stored is not None else None
    if control is None or control.closing_ms <= partition.bucket_ms:
        met.hints.append((partition, rows, source))
        return
    rows = _without_passed(partition, rows, control, met)
    is_below = rows.columns["position_ms"] < control.closing_ms
    if not bool(is_below.all()):
        met.hints.append((partition, rows.select(np.flatnonzero(~is_below)), source))
    early = rows.select(np.flatnonzero(is_below))
    for same in _by_position(early):
        yield from _offer(partition, same, source, stored, met)


def _closed_for_good(partition: Partition) -> Procedure[bytes | None]:
    """The control row of a partition whose bucket is being finished; None: who finishes it has yet to make one.

    Once the bucket is finished nobody makes one, for the partition was announced too late, and so nothing in it was
    acknowledged: an insert that was, was announced before the flag was set (tests/models/finish.pml). Then it is made
    here, as of a partition that is over, so that nobody ever reads a row there."""
    entry: BucketEntry | None = yield ReadBucket(partition)
    key = control_key(partition)
    stored: bytes | None = yield ReadRegister(key)
    if stored is not None or entry is None or not entry.finished:
        return stored
    over = Control.over(partition.end_ms).to_bytes()
    result: CasResult = yield TryCas(Cas(key, None, over))
    return over if result.status is CasStatus.APPLIED else result.current


def _by_position(rows: RowGroup) -> list[RowGroup]:
    """A holder refuses together what it is offered together."""
    if len(rows) <= 1:
        return [rows] if len(rows) else []
    positions_ms = rows.columns["position_ms"]
    order = np.argsort(positions_ms, kind="stable")
    cuts = np.flatnonzero(np.diff(positions_ms[order])) + 1
    return [rows.select(part) for part in np.split(order, cuts)]


def _offer(partition: Partition, rows: RowGroup, source: int, control: bytes | None, met: _Round) -> Procedure[None]:
    """All of one position. What was refused, or not answered, is left only if the control row says so: the holder's
    floor is beyond it before `verified` is, and it may be gone by then. Of a holder whose lease is over nothing
    follows: it may have been paused. Where the control row names nobody, the next holder reads the rows."""
    answer: Offered | None = yield OfferRows(partition, rows, source, is_repeat=True, control=control)
    if answer in TAKEN_IN:
        return
    stored: bytes | None = yield ReadRegister(control_key(partition))
    now = Control.from_bytes(stored) if stored is not None else None
    position_ms = int(rows.columns["position_ms"][0])
    if now is not None and position_ms < now.verified_ms:
        met.passed.append((partition, rows, now.closing_ms))
    elif now is not None and not now.holder:
        met.hints.append((partition, rows, source))
    else:
        met.unsure.append((partition, rows, source))


def _onward(passed: Sequence[Placed], call: Call, done: Inserted) -> Procedure[Append]:
    """P2 and P3: the rows that have not ended where they were passed, each at its next place; THEN `moves`: who
    withdraws a task asks for that place after its own change there, so one of the two sees the other. What its user
    moved was written before, and its way is gone once more: a repeat is told the same place. THEN the place that is
    left points on, whether or not a row is there: who writes one may stand still. THEN its marks are read, and taken
    along: who cancels a task looks for it again after its mark, so one of the two sees the other here as well."""
    left: list[tuple[Partition, RowGroup]] = []
    for partition, rows, _ in passed:
        alive = yield from _not_ended(partition, rows, call)
        if len(alive):
            left.append((partition, alive))
    if not left:
        return Append(())
    latest_ms = max(int(rows.columns["position_ms"].max()) for _, rows in left)
    closing_ms = max(closing_ms for _, _, closing_ms in passed)
    instants = yield from _instants_beyond(latest_ms, max(call.now_ms, closing_ms, latest_ms + 1), call)
    if call.may_be_withdrawn:
        left = yield from _not_moved(left)
    chosen = [
        (_pointing(partition, rows, n, instants), rows.one(n)) for partition, rows in left for n in range(len(rows))
    ]
    marks = [mark for mark, _ in chosen]
    yield SetMarks(marks)
    yield from taken_along(marks)
    return placed_again(chosen, done)


def _not_moved(left: Sequence[tuple[Partition, RowGroup]]) -> Procedure[list[tuple[Partition, RowGroup]]]:
    """What was moved away, or withdrawn, is not written again. Raises NotTakenIn: somebody is about to."""
    digests = [digest for _, rows in left for digest in rows.digests()]
    stored: Sequence[bytes | None] = yield ReadRegisters([move_key(digest) for digest in digests])
    moves = {digest: Move.from_bytes(each) for digest, each in zip(digests, stored, strict=True) if each is not None}
    if any(move.state is MoveState.MOVING for move in moves.values()):
        raise NotTakenIn
    gone = {digest for digest, move in moves.items() if move.state is MoveState.MOVED}
    kept = [(partition, _without(rows, gone)) for partition, rows in left]
    return [(partition, rows) for partition, rows in kept if len(rows)]


def _without(rows: RowGroup, gone: Set[bytes]) -> RowGroup:
    alive = [n for n, digest in enumerate(rows.digests()) if digest not in gone]
    return rows if len(alive) == len(rows) else rows.select(np.array(alive, dtype=np.intp))


def _not_ended(partition: Partition, rows: RowGroup, call: Call) -> Procedure[RowGroup]:
    """Of rows that were passed. Their records were written before `verified` was, which has been read. Raises
    Forgotten."""
    endings: Sequence[Ending] = yield FindSettledMany(partition, rows.keys())
    alive = [n for n, ending in enumerate(endings) if ending.outcome in NOT_TAKEN_IN]
    if alive:
        stored: bytes | None = yield ReadRegister(control_key(partition))
        control = Control.from_bytes(stored) if stored is not None else None
        kept_ms = call.retention_ms - min(call.retention_ms // 10, 600_000)
        is_kept = control is None or not control.finished or call.now_ms < control.finished_at_ms + kept_ms
        if not is_kept:
            raise Forgotten
    return rows.select(np.array(alive, dtype=np.intp))


def _instants_beyond(latest_ms: int, own_ms: int, call: Call) -> Procedure[Instants]:
    """With one that is later than all of the rows' places. One that another try has added counts."""
    key = place_key(call.prefix)
    while True:
        stored: bytes | None = yield ReadRegister(key)
        instants = Instants.from_bytes(stored) if stored is not None else Instants()
        if instants.after(latest_ms) is not None:
            return instants
        longer = instants.with_one(own_ms)
        result: CasResult = yield TryCas(Cas(key, stored, longer.to_bytes(), call.kept_until_ms))
        if result.status is CasStatus.APPLIED:
            return longer


def _pointing(partition: Partition, rows: RowGroup, n: int, instants: Instants) -> Mark:
    key = rows.one(n).keys()[0]
    return Mark(partition, key, MarkKind.FORWARD, b"%d" % (instants.after(key.position_ms) or 0))
