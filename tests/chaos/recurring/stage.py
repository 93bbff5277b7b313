"""The processes of a run: three instances, one caller of schedules, two workers of what they make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.chaos.books import Arrivals
from tests.chaos.recurring.plan import Planned, plan
from tests.chaos.recurring.records import Begun, Logs, Reader, read_logs
from tests.chaos.stage import Cluster, Setting
from tests.process.children import Child

_HERE = "tests.chaos.recurring"


class RecurringStage(Cluster):
    """`of_each`: how many schedules there are of each kind."""

    def __init__(self, setting: Setting, of_each: int) -> None:
        asked = setting.folder / "asked.log"
        super().__init__(setting, [asked])
        self.plan: list[Planned] = plan(Random(setting.seed), of_each)
        self.caller_log = setting.folder / "caller.log"
        addresses = ",".join(seat.address for seat in self.seats.values())
        words = ["-m", f"{_HERE}.caller", addresses, str(self.caller_log), str(asked), str(setting.seed), str(of_each)]
        self.caller = Child(words, setting.folder / "caller.err")
        self.worker_logs: list[Path] = []
        self.workers = [self._worker(), self._worker()]
        self.sdk = self.workers[1]

    def _worker(self) -> Child:
        """With a log of its own: who is killed may leave half a line."""
        number = len(self.worker_logs)
        log = self.setting.folder / f"worker-{number + 1}.log"
        self.worker_logs.append(log)
        words = ["-m", f"{_HERE}.worker", self.target(number), str(log), str(self.setting.seed + number)]
        return Child(words, log.with_suffix(".err"))

    def sdk_again(self) -> None:
        self.sdk = self._worker()
        self.workers.append(self.sdk)
        self.sdk.start()

    def logs(self) -> Logs:
        return read_logs([self.caller_log, *self.worker_logs])

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.instances():
            try:
                for child in (*self.workers, self.caller):
                    child.start()
                yield
            finally:
                for child in (self.caller, *self.workers):
                    child.kill()


class Pulse(Arrivals):
    """What has arrived so far. The schedules that nothing changes tell whether all goes on: `behind_ms` is by how much
    the last instant of the slowest one lies behind."""

    def __init__(self, steady: list[str]) -> None:
        super().__init__()
        self._readers: dict[Path, Reader] = {}
        self._last_ms = dict.fromkeys(steady, 0)
        self._seen: set[str] = set()
        # Deliveries of all others.
        self.others = 0

    def follow(self, logs: list[Path]) -> None:
        for log in logs:
            for each in self._readers.setdefault(log, Reader(log)).read():
                if isinstance(each, Begun):
                    self._take(each)

    def _take(self, each: Begun) -> None:
        self.came(each.at_ms, each.scope, each.token)
        if each.task_id not in self._seen:
            self._seen.add(each.task_id)
            self.came_first(each.at_ms, each.at_ms - each.fire_at_ms)
        if each.schedule_id in self._last_ms:
            self._last_ms[each.schedule_id] = max(self._last_ms[each.schedule_id], each.instant_ms)
        else:
            self.others += 1

    def behind_ms(self, now_ms: float) -> float:
        return now_ms - min(self._last_ms.values(), default=0)

    @property
    def count(self) -> int:
        """Tasks that have arrived."""
        return len(self._seen)
