"""The processes of a run: three instances, callers, and a worker of each kind of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.books import Books
from tests.chaos.lines import Writer
from tests.chaos.regulated.plan import OFFERS, is_doomed, put_rules
from tests.chaos.regulated.records import DONE, Begun, Ended, Given, Gone, Logs, Reader, logs_of
from tests.chaos.regulated.releasing import Operator
from tests.chaos.stage import CalledCluster, Setting
from tests.process.children import Child
from timerd.client import SyncClient
from timerd.demo.records import CallRecord, now_ms

_HERE = "tests.chaos.regulated"


class WorkerProcess(Child):
    """Whoever kills it writes down that it is gone."""

    def __init__(self, target: str, name: str, kind: int, log: Path, seed: int, notes: Writer) -> None:
        words = ["-m", f"{_HERE}.worker", target, name, str(kind), str(log), str(seed)]
        super().__init__(words, log.with_suffix(".err"))
        self._name, self._notes = name, notes

    def kill(self) -> None:
        was_running = self.is_running()
        super().kill()
        if was_running:
            self._notes.write(Gone(self._name, now_ms()))


class RegulatedStage(CalledCluster):
    caller_module = f"{_HERE}.caller"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._notes_log = setting.folder / "notes.log"
        self.notes = Writer(self._notes_log)
        self._operator_log = setting.folder / "operator.log"
        self.worker_logs: list[Path] = []
        self.workers = [self._worker(kind) for kind in range(len(OFFERS))]
        self.sdk = self.workers[-1]

    def _worker(self, kind: int) -> WorkerProcess:
        """With a log of its own: who is killed may leave half a line."""
        number = len(self.worker_logs)
        log = self.setting.folder / f"worker-{number + 1}.log"
        self.worker_logs.append(log)
        return WorkerProcess(self.target(number), log.stem, kind, log, self.setting.seed + number, self.notes)

    def sdk_again(self) -> None:
        self.sdk = self._worker(len(OFFERS) - 1)
        self.workers.append(self.sdk)
        self.sdk.start()

    def logs(self) -> Logs:
        return logs_of(self.caller_logs, [*self.worker_logs, self._notes_log, self._operator_log])

    def note_given(self) -> None:
        for each in self.handed_over():
            self.notes.write(Given(each.scope, each.at_ms))

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.instances():
            operator = Operator(self.target(1), self._operator_log)
            try:
                with SyncClient(self.target(0)) as client:
                    put_rules(client)
                for child in (*self.workers, *self.callers):
                    child.start()
                operator.start()
                yield
            finally:
                operator.stop()
                for child in (*self.callers, *self.workers):
                    child.kill()
                self.notes.close()


class RegulatedBooks(Books):
    """What must still arrive, what is in hand, and what has begun and is not through."""

    def __init__(self) -> None:
        super().__init__()
        self._begun_readers: dict[Path, Reader] = {}
        # By worker and serial: when it began, and when it ended.
        self._spans: dict[tuple[str, int], tuple[float, float | None]] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._ids: dict[int, str] = {}
        self._through: set[int] = set()
        self._given_up: set[int] = set()

    def follow_workers(self, logs: list[Path]) -> None:
        for log in logs:
            for record in self._begun_readers.setdefault(log, Reader(log)).read():
                if isinstance(record, Begun):
                    self._begin(record)
                elif isinstance(record, Ended):
                    self._end(record)

    def _call(self, call: CallRecord) -> None:
        if call.verb == "cancel":
            self._given_up.add(call.number)
        super()._call(call)

    def _begin(self, begun: Begun) -> None:
        self._delivery(begun.delivery)
        self._spans[begun.worker, begun.serial] = begun.at_ms, None
        self._numbers[begun.worker, begun.serial] = begun.number
        self._ids[begun.number] = begun.task_id

    def _end(self, ended: Ended) -> None:
        which = ended.worker, ended.serial
        self._spans[which] = self._spans[which][0], ended.at_ms
        if ended.how == DONE:
            self._through.add(self._numbers[which])

    @property
    def begun(self) -> int:
        return len(self._spans)

    def in_hand_at(self, at_ms: float) -> int:
        return sum(begun_ms <= at_ms < (ended_ms or at_ms + 1) for begun_ms, ended_ms in self._spans.values())

    def unfinished(self) -> set[int]:
        """Of those that do not end as dead letters."""
        return {each for each in self._ids.keys() - self._through - self._given_up if not is_doomed(each)}

    def doomed(self) -> dict[int, str]:
        """With their ids, as they were delivered."""
        return {number: task_id for number, task_id in self._ids.items() if is_doomed(number)}
