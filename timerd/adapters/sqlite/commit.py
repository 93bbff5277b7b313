"""What the writer gathers in one commit: all rows of a partition become one row group, all far rows of a day another.

Reads that must see the rows (controls, the finishing flag) are made when everything has been written, still inside the
transaction: they are true at the moment in which the rows become readable.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timerd.adapters.sqlite.days import DAY_MS, CatalogueDays, day_of, oldest_open_ms
from timerd.adapters.sqlite.dead_letters import expire_estimates
from timerd.adapters.sqlite.far import FarPlace, far_days, far_place_of, take_slice, write_far
from timerd.adapters.sqlite.groups import INSERT, join_sorted, joined_row
from timerd.adapters.sqlite.inserts import insert_rows
from timerd.adapters.sqlite.key_index import KeyIndex
from timerd.adapters.sqlite.mark_index import MarkIndex
from timerd.adapters.sqlite.mark_writing import write_marks
from timerd.adapters.sqlite.registers import RegisterTable
from timerd.adapters.sqlite.requests import Requests
from timerd.model.errors import CorruptRow
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import control_key
from timerd.model.rows import RowGroup
from timerd.model.single_messages import SingleMessages
from timerd.model.spread import Spread, cut
from timerd.ports import Append, Appended, Mark

# A group is read as a whole, and taken in as a whole by the loop that fires: that must not take many milliseconds.
MOST_GROUP_BYTES = 512 << 10
_TIDY_MS = 60_000


class FarDays:
    """Which days have far groups, for both sides: the writer adds before it commits, and takes away after a split."""

    def __init__(self, days: set[int]) -> None:
        self.waiting = days
        # Days that were scanned: what comes after goes to its bucket at once, so that it has a name.
        self.opened: set[int] = set()


class _Pending:
    """One row group in the making."""

    def __init__(self, name: int) -> None:
        self.name = name
        self.groups: list[RowGroup] = []
        self.bytes = 0

    def add(self, group: RowGroup) -> None:
        self.groups.append(group)
        lengths = group.columns["length"]
        self.bytes += int(lengths[0] if len(lengths) == 1 else lengths.sum()) + group.columns.nbytes


class _Waiting:
    """A message and what becomes of it."""

    __slots__ = ("message", "repeated", "sources")

    def __init__(self, message: Append) -> None:
        self.message = message
        self.sources: dict[Partition, int] = {}
        self.repeated: bytes | None = None

    def say(self, asked: _Asked) -> None:
        message = self.message
        if not message.prefix:
            return
        asked.replies[message.prefix] = message.reply
        asked.due_ms[message.prefix] = _due_ms(message)
        if _is_late(message):
            asked.late.add(message.prefix)


class _WaitingSingles:
    """Messages of one row each, and what becomes of them. `repeated`: which of them were known -> their replies."""

    __slots__ = ("messages", "repeated", "sources")

    def __init__(self, messages: SingleMessages) -> None:
        self.messages = messages
        self.sources: dict[Partition, int] = {}
        self.repeated: Mapping[int, bytes] = {}

    def say(self, asked: _Asked) -> None:
        messages = self.messages
        asked.replies.update(zip(messages.prefixes, messages.replies, strict=True))
        asked.due_ms.update(zip(messages.prefixes, [place.end_ms for place in messages.places], strict=True))
        asked.late.update(messages.late)


class _Asked(NamedTuple):
    """What is to be known of the messages of a commit, by their prefixes: `Requests.look_up`."""

    replies: dict[bytes, bytes]
    due_ms: dict[bytes, int]
    late: set[bytes]


class Commit:
    """The transaction state of the writer."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        far: FarDays,
        now_ms: Callable[[], int],
        on_corrupt: Callable[[CorruptRow], None],
    ) -> None:
        self.connection = connection
        self.days = CatalogueDays(connection)
        self.registers = RegisterTable(connection)
        self.requests = Requests(connection)
        self.index = KeyIndex(connection, on_corrupt)
        self.mark_index = MarkIndex(connection, on_corrupt, is_writer=True)
        self.far = far
        self.now_ms = 0
        self._clock_ms = now_ms
        self._messages: list[_Waiting | _WaitingSingles] = []
        self._near: dict[Partition, list[_Pending]] = {}
        self._distant: dict[FarPlace, list[RowGroup]] = {}
        # Scope and shard -> the spreads of all messages.
        self._spread: dict[tuple[int, int], list[RowGroup]] = {}
        self._unnamed: dict[Partition, dict[RowKey, int]] = {}
        self._split_now: set[int] = set()
        # Control and finishing flag of a partition, as they are when the commit ends.
        self._facts: dict[Partition, tuple[bytes | None, bool]] = {}
        self._far_from_ms = 0
        self._tidied_ms = 0
        # What has expired before this may be forgotten, and whether there is more of it than was.
        self._expired_ms = 0
        self._is_behind = False
        self._sequence = max(_newest_name(connection, table) for table in ("groups", "marks", "mark_blocks"))

    def begin(self) -> None:
        self.now_ms = self._clock_ms()
        self._far_from_ms = -(-(self.now_ms + DAY_MS) // DAY_MS) * DAY_MS
        self._facts.clear()
        self._split_now.clear()
        self.requests.expire(self.now_ms)
        self._tidy()

    def _tidy(self) -> None:
        """Once a minute. While more registers have expired some go with each commit: where each minute brings more keys
        than one of them takes away, the file would grow for ever."""
        if abs(self.now_ms - self._tidied_ms) >= _TIDY_MS:
            self._tidied_ms = self.now_ms
            expire_estimates(self.connection, self.now_ms)
            self._expired_ms = min(self.now_ms, oldest_open_ms(self.connection, self.now_ms))
            self._is_behind = True
        if self._is_behind:
            self._is_behind = self.registers.expire(self._expired_ms)

    def next_name(self) -> int:
        """Of a row group, a mark or a block of marks: larger than every one before, also of those rolled back."""
        self._sequence += 1
        return self._sequence

    def mark(self, marks: Sequence[Mark]) -> int:
        """How many are the first of their kind on their row."""
        return write_marks(self.connection, marks, self.next_name, self.mark_index)

    def append(self, messages: Sequence[Append]) -> Callable[[], list[Appended]]:
        """Taken in when the commit is flushed: what is known of all messages is then read at once."""
        if isinstance(messages, SingleMessages):
            singles = _WaitingSingles(messages)
            self._messages.append(singles)
            return lambda: self._appended_each(singles)
        waiting = [_Waiting(message) for message in messages]
        self._messages += waiting
        return lambda: [self._appended(one) for one in waiting]

    def _take_in(self) -> None:
        messages, self._messages = self._messages, []
        asked = _Asked({}, {}, set())
        # Of two equal messages the first one is stored, so both are answered what it says.
        for one in reversed(messages):
            one.say(asked)
        self.requests.look_up(asked.replies, self.now_ms, asked.due_ms, asked.late)
        for one in messages:
            if isinstance(one, _WaitingSingles):
                self._take_singles(one)
            else:
                self._take(one)
        self._cut_spreads()

    def _take(self, one: _Waiting) -> None:
        prefix = one.message.prefix
        one.repeated = self.requests.reply_to(prefix) if prefix else None
        if one.repeated is not None:
            return
        if prefix:
            self._take_message(one)
        else:
            self._take_fresh(one)

    def _take_singles(self, one: _WaitingSingles) -> None:
        """As `_take_message` of each, in one pass."""
        messages = one.messages
        one.repeated = self.requests.known_of(messages.prefixes)
        for partition, rows in messages.parts(one.repeated):
            if name := self._gather(partition, rows):
                one.sources[partition] = name
        for n, (prefix, reply) in enumerate(zip(messages.prefixes, messages.replies, strict=True)):
            if n not in one.repeated:
                self.requests.remember(prefix, reply)

    def _take_message(self, one: _Waiting) -> None:
        message, spread = one.message, one.message.spread
        for partition, group in message.groups:
            if name := self._gather(partition, group):
                one.sources[partition] = name
        if spread is not None:
            self._spread.setdefault((spread.scope, spread.shard), []).append(spread.rows)
        self.requests.remember(message.prefix, message.reply)

    def _take_fresh(self, one: _Waiting) -> None:
        self._cut_spreads()
        spread = one.message.spread
        for partition, group in (*one.message.groups, *(spread.parts() if spread else ())):
            if name := self._gather_fresh(partition, group):
                one.sources[partition] = name

    def _appended(self, one: _Waiting) -> Appended:
        controls: dict[Partition, bytes | None] = {}
        finishing: list[Partition] = []
        for partition, _ in one.message.groups:
            controls[partition], is_finishing = self._facts.get(partition) or self._read_facts(partition)
            if is_finishing:
                finishing.append(partition)
        if spread := one.message.spread:
            touched = self._noted(spread)
            controls.update((p, c) for p, c in touched.items() if c is not None)
            finishing += [p for p, control in touched.items() if control is None]
        return Appended(controls, one.sources, frozenset(finishing), one.repeated)

    def _appended_each(self, one: _WaitingSingles) -> list[Appended]:
        """Those of one partition are told the same, once."""
        said: dict[Partition, Appended] = {}
        for partition in dict.fromkeys(one.messages.places):
            control, is_finishing = self._facts.get(partition) or self._read_facts(partition)
            name, finishing = one.sources.get(partition, 0), frozenset([partition] if is_finishing else ())
            said[partition] = Appended({partition: control}, {partition: name} if name else {}, finishing)
        each = [said[partition] for partition in one.messages.places]
        for n, reply in one.repeated.items():
            each[n] = replace(each[n], sources={}, repeated=reply)
        return each

    def _read_facts(self, partition: Partition) -> tuple[bytes | None, bool]:
        """Once for all messages of the commit."""
        value = self.registers.control(control_key(partition).name)
        facts = value, value is None and self.days.is_finishing(partition)
        self._facts[partition] = facts
        return facts

    def _noted(self, spread: Spread) -> dict[Partition, bytes | None]:
        """Which of its partitions have a control row or, without one, the finishing flag: two reads for all of them."""
        flagged = dict.fromkeys(self.days.finishing(spread.first, spread.last))
        noted = {**flagged, **self.registers.controls(spread.first, spread.last)}
        return {partition: control for partition, control in noted.items() if len(spread.part(partition))}

    def _cut_spreads(self) -> None:
        """All spreads are sorted together and cut once: by day as far as they are far, else by bucket."""
        for (scope, shard), groups in self._spread.items():
            rows = join_sorted(groups)
            self.days.announce_all(scope, rows.columns["position_ms"])
            for day, of_day in cut(rows, DAY_MS):
                if day * DAY_MS >= self._far_from_ms and day not in self.far.opened:
                    self._distant.setdefault(FarPlace(day, scope, shard), []).append(of_day)
                    continue
                for partition, part in Spread(scope, shard, of_day).parts():
                    self._gather_near(partition, part)
        self._spread.clear()

    def _gather(self, partition: Partition, group: RowGroup) -> int:
        """Returns the name of the row group it will be part of; 0: it is far."""
        bucket_ms = partition.bucket_ms
        if bucket_ms < self._far_from_ms or day_of(bucket_ms) in self.far.opened:
            return self._gather_near(partition, group)
        self.days.announce(partition)
        place = far_place_of(partition)
        if place in self._distant:
            self._distant[place].append(group)
        else:
            self._distant[place] = [group]
        return 0

    def _gather_near(self, partition: Partition, group: RowGroup) -> int:
        parts = self._near.get(partition)
        if parts is None:
            self.days.announce(partition)
            parts = self._near[partition] = [_Pending(self.next_name())]
        elif parts[-1].bytes > MOST_GROUP_BYTES:
            parts.append(_Pending(self.next_name()))
        parts[-1].add(group)
        return parts[-1].name

    def _gather_fresh(self, partition: Partition, group: RowGroup) -> int:
        """Rows of no message (carries, moves) may be there already. They never go to far groups, where a look for them
        would have to read the whole day."""
        keys = group.keys()
        if partition not in self._unnamed:
            self._unnamed[partition] = self._keys_pending(partition)
        known = self._unnamed[partition]
        stored = self.index.locate(partition, [(key.position_ms, key.digest) for key in keys], payloads=False)
        for key, rows in zip(keys, stored, strict=True):
            known.update((key, row.source) for row in rows if row.columns["version"][0] == key.version)
        fresh = [row for row, key in enumerate(keys) if key not in known]
        if not fresh:
            return max((known[key] for key in keys), default=0)
        name = self._gather_near(partition, group.select(np.array(fresh, dtype=np.intp)))
        known.update((keys[row], name) for row in fresh)
        return name

    def _keys_pending(self, partition: Partition) -> dict[RowKey, int]:
        parts = self._near.get(partition, [])
        return {key: part.name for part in parts for group in part.groups for key in list(group.keys())}

    def split(self, day: int) -> Callable[[], bool]:
        """One slice; whether there may be more. The day is done when a commit finds nothing left, not before: until
        then readers know that rows may be missing from the buckets."""
        self.flush()
        parts, taken = take_slice(self.connection, day)
        for partition, rows in parts:
            self._gather_near(partition, rows)
        if taken:
            self._split_now.add(day)
        elif day not in self._split_now:
            self.far.waiting.discard(day)
        more = day in self._split_now
        return lambda: more

    def drop(self, partition: Partition, drop_slice: Callable[[sqlite3.Connection, Partition], bool]) -> bool:
        """One slice of everything that was written before; whether there may be more."""
        self.flush()
        self.index.forget(partition)
        self.mark_index.forget(partition)
        if drop_slice(self.connection, partition):
            return True
        self.days.dropped(partition)
        self.days.flush()
        return False

    def flush(self) -> None:
        self._take_in()
        near = [(part.name, partition, part.groups) for partition, parts in self._near.items() for part in parts]
        rows = (joined_row(name, partition, groups) for name, partition, groups in near)
        insert_rows(self.connection, INSERT, rows)
        if self._distant:
            self.far.waiting.update(place.day for place in self._distant)
            write_far(self.connection, self._distant.items())
        self.days.flush()
        self.requests.flush(self.now_ms)
        self._clear()

    def forget(self) -> None:
        self._clear()
        self.days.forget()
        self.registers.forget()
        self.requests.forget()
        self.index.forget()
        self.mark_index.forget()
        self.far.waiting |= far_days(self.connection)

    def _clear(self) -> None:
        self._messages.clear()
        self._near.clear()
        self._distant.clear()
        self._spread.clear()
        self._unnamed.clear()


def _is_late(message: Append) -> bool:
    return any(group.columns["flags"].any() for _, group in message.groups)


def _due_ms(message: Append) -> int:
    """No task of it is due later."""
    last = message.spread.last if message.spread is not None else message.groups[-1][0] if message.groups else None
    return last.end_ms if last is not None else 0


def _newest_name(connection: sqlite3.Connection, table: str) -> int:
    return int(connection.execute(f"SELECT ifnull(max(id), 0) FROM {table}").fetchone()[0])
