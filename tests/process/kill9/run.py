"""The run: load, kill at an instant that hurts, start again, and in the end the verdict from the logs alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.process.children import Child, Holder, Server
from tests.process.kill9.caller import QUEUES
from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.records import Confirmed, Delivery, Kill, LogReader, Logs, now_ms, read_logs
from timerd.demo.story import stories_of
from timerd.demo.verdict import Verdict, judge

# What must be open at the instant of a kill, or it does not count.
LEAST_UNACKNOWLEDGED = 100
LEAST_UNANSWERED = 8
# Calls that begin when enough is unacknowledged: the kill comes in the midst of them.
_BURST = 140
_PATIENCE_S = 60.0
_LOOK_S = 0.002
# Not enough in hand by then: more is asked for.
_TOP_UP_S = 1.5
# Of the kills, those that come as soon as the server is back: everything is still in hand, nobody has reconnected.
_AT_ONCE_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Settings:
    kills: int
    tasks: int
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Strike:
    kill: Kill
    # Deliveries without a confirmed ack, and calls without an answer, at the instant of the kill.
    unacknowledged: int
    unanswered: int

    @property
    def counts(self) -> bool:
        return self.unacknowledged >= LEAST_UNACKNOWLEDGED and self.unanswered >= LEAST_UNANSWERED

    def __str__(self) -> str:
        down_ms = self.kill.ready_ms - self.kill.killed_ms
        verdict = "counts" if self.counts else "does not count"
        return (
            f"{self.unacknowledged:5d} deliveries unacknowledged, {self.unanswered:3d} calls unanswered, "
            f"back after {down_ms:5.0f} ms: {verdict}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    strikes: tuple[Strike, ...]
    verdict: Verdict
    kills_wanted: int
    # See timerd/demo/excuse.py.
    forgotten: int

    @property
    def counted(self) -> int:
        return sum(strike.counts for strike in self.strikes)

    @property
    def holds(self) -> bool:
        return self.verdict.holds and self.counted >= self.kills_wanted


class Open:
    """What has begun and not ended, with both instants."""

    def __init__(self) -> None:
        self._begun_ms: dict[object, float] = {}
        self._ended_ms: dict[object, float] = {}

    def __len__(self) -> int:
        return len(self._begun_ms) - len(self._ended_ms)

    def begin(self, what: object, at_ms: float) -> None:
        self._begun_ms.setdefault(what, at_ms)

    def end(self, what: object, at_ms: float) -> None:
        if what in self._begun_ms:
            self._ended_ms.setdefault(what, at_ms)

    def count_at(self, at_ms: float) -> int:
        """How many were open then; what had ended by then is forgotten."""
        for what in [what for what, ended_ms in self._ended_ms.items() if ended_ms <= at_ms]:
            del self._begun_ms[what], self._ended_ms[what]
        return sum(begun_ms <= at_ms for begun_ms in self._begun_ms.values())


class Watch:
    """What is open, as far as the logs are written."""

    def __init__(self, folder: Path) -> None:
        self._worker = LogReader(folder / "holder.log")
        self._asked = folder / "asked.log"
        self._offset = 0
        self.received = 0
        self.deliveries = Open()
        self.calls = Open()

    def look(self) -> None:
        for record in self._worker.read():
            if isinstance(record, Delivery):
                self.received += 1
                self.deliveries.begin(record.delivery_id, record.received_ms)
            elif isinstance(record, Confirmed):
                self.deliveries.end(record.delivery_id, record.confirmed_ms)
        for mark in self._marks():
            (self.calls.begin if mark["what"] == "asked" else self.calls.end)(mark["call"], mark["at_ms"])

    def _marks(self) -> Iterator[dict[str, Any]]:
        with self._asked.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if line.endswith(b"\n"):
                    self._offset += len(line)
                    yield json.loads(line)

    def until(self, fact: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        self.look()
        while not fact():
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"waited {_PATIENCE_S:.0f} s in vain until {what}; "
                    f"{len(self.deliveries)} deliveries and {len(self.calls)} calls are open"
                )
            time.sleep(_LOOK_S)
            self.look()


class Run:
    """The processes of one run."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        folder = settings.folder
        self._settings = settings
        self._say = say
        self._rng = Random(settings.seed)
        self._server = Server(folder)
        target, seed = self._server.address, str(settings.seed)
        here = "tests.process.kill9"
        caller = ["-m", f"{here}.caller", target, str(folder / "caller.log"), str(folder / "asked.log"), seed]
        self._holder = Holder(folder, "holder", target, QUEUES[0], (200, 2500), "--seed", seed)
        self._sdk = Child(["-m", f"{here}.sdk_worker", target, QUEUES[1], str(folder / "sdk.log")], folder / "sdk.err")
        self._caller = Child(caller, folder / "caller.err")
        self._watch = Watch(folder)

    @contextmanager
    def processes(self) -> Iterator[None]:
        children = (self._server, self._holder, self._sdk, self._caller)
        try:
            for child in children:
                child.start()
            yield
        finally:
            for child in reversed(children):
                child.kill()

    def state(self) -> str:
        """Of a server that does not answer."""
        return f"the server said: {self._server.where()}" if self._server.is_running() else "the server had ended"

    def play(self) -> Report:
        kills: list[Kill] = []
        strikes: list[Strike] = []
        share = max(_BURST * 2, -(-self._settings.tasks // self._settings.kills))
        while sum(strike.counts for strike in strikes) < self._settings.kills:
            if len(strikes) > 3 * self._settings.kills:
                break
            kills.append(self._strike(share))
            strikes.append(self._count(kills[-1]))
            self._say(f"kill {len(strikes):3d}: {strikes[-1]}")
        self._caller.tell("end")
        if self._caller.wait(_PATIENCE_S) != 0:
            raise RuntimeError(f"The caller failed: {self._caller.errors()[-2000:]}")
        self._settle()
        logs = replace(self._logs(), kills=tuple(kills))
        excused = forgotten_by_a_crash(logs)
        kept = tuple(each for each in logs.deliveries if each not in excused)
        return Report(tuple(strikes), judge(replace(logs, deliveries=kept)), self._settings.kills, len(excused))

    def _strike(self, share: int) -> Kill:
        at_once = self._rng.random() < _AT_ONCE_SHARE
        if not at_once:
            self._watch.until(lambda: len(self._watch.calls) < LEAST_UNANSWERED, "earlier calls are answered")
        fresh = self._watch.received + LEAST_UNACKNOWLEDGED
        self._caller.tell(f"bulk {share - _BURST}")
        asked_s, more = time.monotonic(), 0
        enough = LEAST_UNACKNOWLEDGED + self._rng.randint(10, 60)

        def is_enough_in_hand() -> bool:
            nonlocal asked_s, more
            if time.monotonic() > asked_s + _TOP_UP_S:
                asked_s, more = time.monotonic(), more + _BURST
                self._caller.tell(f"bulk {more}")
            return len(self._watch.deliveries) > enough and (at_once or self._watch.received > fresh)

        self._watch.until(is_enough_in_hand, "enough is in hand")
        self._caller.tell(f"burst {_BURST}")
        self._watch.until(lambda: len(self._watch.calls) >= LEAST_UNANSWERED, "enough calls are under way")
        time.sleep(self._rng.uniform(0, 0.03))
        killed_ms = now_ms()
        self._server.kill()
        self._server.start()
        return Kill(killed_ms, now_ms())

    def _count(self, kill: Kill) -> Strike:
        """By the instants in the logs: what came before the kill, and what followed it only later."""
        self._watch.look()
        return Strike(kill, self._watch.deliveries.count_at(kill.killed_ms), self._watch.calls.count_at(kill.killed_ms))

    def _settle(self) -> None:
        """Until everything that must arrive has, and a little longer, so that what must not come has its chance."""
        calls = self._logs().calls
        must = {story.number for story in stories_of(calls).values() if story.must_arrive}
        last_ms = max(call.fire_at_ms for call in calls) + 500
        arrived: set[int] = set()
        readers = [LogReader(self._settings.folder / name) for name in ("holder.log", "sdk.log")]

        def is_over() -> bool:
            arrived.update(
                record.number for reader in readers for record in reader.read() if isinstance(record, Delivery)
            )
            return now_ms() > last_ms and must <= arrived and not len(self._watch.deliveries)

        try:
            self._watch.until(is_over, "everything has arrived")
        except TimeoutError as error:
            # The verdict names what is missing.
            self._say(str(error))

    def _logs(self) -> Logs:
        return read_logs(self._settings.folder / name for name in ("caller.log", "holder.log", "sdk.log"))


def run(settings: Settings, say: Callable[[str], None]) -> Report:
    playing = Run(settings, say)
    with playing.processes():
        try:
            return playing.play()
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {playing.state()}") from error
