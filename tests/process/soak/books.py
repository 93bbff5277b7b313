"""The verdict over millions of tasks, drawn while they run and in a few dozen bytes each.

A task that was stored, never changed and arrived once is a row of columns. Whatever is special (cancelled, moved, no
clear answer, arrived again, other facts than answered) is judged in the end by the demo's own verdict, record by
record.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from tests.process.soak.logs import OUTCOMES, Kind, Line
from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.records import CallRecord, CallVerb, Confirmed, DeliveryRecord, Kill, Logs
from timerd.demo.verdict import Verdict, judge

_OK = OUTCOMES.index("OK")
_GROW = 1 << 16
# The demo's verdict is asked for so many tasks at a time.
_AT_ONCE = 20_000
_VERBS: dict[int, CallVerb] = {Kind.CANCEL: "cancel", Kind.MOVE: "move"}
_SHOWN = 5


class Columns:
    """By the number of the task. `answer`: outcome of its schedule call, 0 before it. The rest: of the first delivery,
    what it showed, when it came, when its ack was confirmed."""

    def __init__(self) -> None:
        self.answer = array("B")
        self.arrivals = array("B")
        self.fire_at_ms = array("q")
        self.shown_fire_at_ms = array("q")
        self.received_ms = array("d")
        self.confirmed_ms = array("d")
        self.delivery = array("Q")

    def __len__(self) -> int:
        return len(self.answer)

    def reach(self, number: int) -> None:
        while number >= len(self):
            for whole in (self.answer, self.arrivals, self.fire_at_ms, self.shown_fire_at_ms, self.delivery):
                whole.frombytes(bytes(_GROW * whole.itemsize))
            for exact in (self.received_ms, self.confirmed_ms):
                exact.frombytes(bytes(_GROW * exact.itemsize))


class Books:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lateness_ms: list[float] = []
        self._columns = Columns()
        self._changes: dict[int, Line] = {}
        # Deliveries without a confirmed ack, by their short name.
        self._in_hand: dict[int, int] = {}
        self._more: dict[int, list[Line]] = defaultdict(list)
        self._more_confirmed_ms: dict[int, float] = {}
        self._special: set[int] = set()
        self._early: list[str] = []
        self._take: dict[int, Callable[[Line], None]] = {
            Kind.SCHEDULE: self._schedule,
            Kind.CANCEL: self._change,
            Kind.MOVE: self._change,
            Kind.DELIVERY: self._deliver,
            Kind.CONFIRMED: self._confirm,
        }

    @property
    def in_hand(self) -> int:
        return len(self._in_hand)

    def take(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._take[line.kind](line)

    def missing(self) -> int:
        """Stored, never changed, not here yet."""
        return int(np.count_nonzero(self._lost()))

    # -- what is read ---------------------------------------------------------------------------------------------

    def _schedule(self, line: Line) -> None:
        columns, number = self._columns, line.number
        columns.reach(number)
        self.counts["scheduled"] += 1
        columns.answer[number] = line.detail or len(OUTCOMES)
        columns.fire_at_ms[number] = line.fire_at_ms
        if line.detail != _OK or (columns.arrivals[number] and columns.shown_fire_at_ms[number] != line.fire_at_ms):
            self._special.add(number)

    def _change(self, line: Line) -> None:
        self._changes[line.number] = line
        self._special.add(line.number)

    def _deliver(self, line: Line) -> None:
        columns, number = self._columns, line.number
        columns.reach(number)
        self._in_hand[line.delivery] = number
        self.lateness_ms.append(line.at_ms - line.fire_at_ms)
        if line.at_ms < line.fire_at_ms:
            self._early.append(f"task {number} arrived {line.fire_at_ms - line.at_ms:.3f} ms before its time")
        if columns.arrivals[number]:
            self._more[number].append(line)
            self._special.add(number)
            return
        self.counts["arrived"] += 1
        columns.arrivals[number] = 1
        columns.received_ms[number] = line.at_ms
        columns.shown_fire_at_ms[number] = line.fire_at_ms
        columns.delivery[number] = line.delivery
        if columns.answer[number] and columns.fire_at_ms[number] != line.fire_at_ms:
            self._special.add(number)

    def _confirm(self, line: Line) -> None:
        number = self._in_hand.pop(line.delivery, None)
        if number is None:
            return
        columns = self._columns
        if columns.delivery[number] != line.delivery:
            self._more_confirmed_ms.setdefault(line.delivery, line.at_ms)
        elif not columns.confirmed_ms[number] or line.at_ms < columns.confirmed_ms[number]:
            self.counts["confirmed"] += not columns.confirmed_ms[number]
            columns.confirmed_ms[number] = line.at_ms

    # -- the verdict ----------------------------------------------------------------------------------------------

    def verdict(self, kills: Sequence[Kill]) -> dict[str, list[str]]:
        """Kind of violation -> sentences. What was counted stands in `counts` afterwards."""
        broken: dict[str, list[str]] = defaultdict(list)
        broken["early"] = self._early
        broken["lost"] = [f"task {number} was stored and never arrived" for number in np.flatnonzero(self._lost())]
        broken["wrong facts"] = [f"task {number} arrived, nobody was told of it" for number in self._strangers()]
        for logs in self._special_logs(kills):
            excused = forgotten_by_a_crash(logs)
            kept = tuple(each for each in logs.deliveries if each not in excused)
            judged = judge(Logs(logs.calls, kept, logs.confirmed, logs.kills))
            self._count(judged, len(excused))
            for kind, sentences in judged.violations.items():
                broken[kind] += sentences
        return broken

    def _count(self, judged: Verdict, excused: int) -> None:
        for name in ("cancelled", "moved", "unanswered", "duplicates", "duplicates_explained"):
            self.counts[name] += getattr(judged, name)
        self.counts["cancels_unknown"] += judged.cancels_unknown
        self.counts["moves_unknown"] += judged.moves_unknown
        self.counts["forgotten_by_a_crash"] += excused

    def _ordinary(self) -> np.ndarray:
        ordinary = np.ones(len(self._columns), dtype=bool)
        ordinary[np.fromiter(self._special, dtype=np.int64, count=len(self._special))] = False
        return ordinary

    def _lost(self) -> np.ndarray:
        answer = np.array(self._columns.answer, dtype=np.uint8)
        arrivals = np.array(self._columns.arrivals, dtype=np.uint8)
        lost: np.ndarray = (answer == _OK) & (arrivals == 0) & self._ordinary()
        return lost

    def _strangers(self) -> list[int]:
        answer = np.array(self._columns.answer, dtype=np.uint8)
        arrivals = np.array(self._columns.arrivals, dtype=np.uint8)
        strangers: list[int] = np.flatnonzero((answer == 0) & (arrivals > 0)).tolist()
        return strangers

    def _special_logs(self, kills: Sequence[Kill]) -> Iterator[Logs]:
        numbers = sorted(self._special)
        for at in range(0, len(numbers), _AT_ONCE):
            part = numbers[at : at + _AT_ONCE]
            deliveries = [each for number in part for each in self._deliveries(number)]
            confirmed = [each for number in part for each in self._confirmations(number)]
            calls = [each for number in part for each in self._calls(number)]
            yield Logs(tuple(calls), tuple(deliveries), tuple(confirmed), tuple(kills))

    def _calls(self, number: int) -> Iterator[CallRecord]:
        columns = self._columns
        if columns.answer[number]:
            outcome = (*OUTCOMES, "OTHER")[columns.answer[number]]
            yield CallRecord("schedule", number, 0, 0, outcome, "", columns.fire_at_ms[number])
        change = self._changes.get(number)
        if change is not None:
            outcome, verb = OUTCOMES[change.detail], _VERBS[change.kind]
            yield CallRecord(verb, number, change.asked_ms, change.at_ms, outcome, "", change.fire_at_ms)

    def _deliveries(self, number: int) -> Iterator[DeliveryRecord]:
        columns = self._columns
        if columns.arrivals[number]:
            shown_ms, received_ms = columns.shown_fire_at_ms[number], columns.received_ms[number]
            yield DeliveryRecord(number, "", str(columns.delivery[number]), 1, shown_ms, received_ms)
        for line in self._more.get(number, ()):
            yield DeliveryRecord(number, "", str(line.delivery), line.detail, line.fire_at_ms, line.at_ms)

    def _confirmations(self, number: int) -> Iterator[Confirmed]:
        columns = self._columns
        if columns.confirmed_ms[number]:
            yield Confirmed(str(columns.delivery[number]), 1, columns.confirmed_ms[number])
        for line in self._more.get(number, ()):
            if line.delivery in self._more_confirmed_ms:
                yield Confirmed(str(line.delivery), line.detail, self._more_confirmed_ms[line.delivery])


def shown(broken: dict[str, list[str]]) -> Iterator[str]:
    for kind, sentences in broken.items():
        yield f"{kind}: {len(sentences)}"
        yield from (f"  {sentence}" for sentence in sentences[:_SHOWN])
