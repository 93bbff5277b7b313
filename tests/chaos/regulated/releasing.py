"""An operator looks for keys that stand still, also while faults are on: a dead letter that halts its key is redriven,
and when it halts it once more, the key goes on without it."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

from tests.chaos.lines import Writer
from tests.chaos.regulated.plan import HALT
from tests.chaos.regulated.records import Released
from timerd.client import SyncClient, TimerdError
from timerd.demo.records import now_ms

# So long a key stands still about, before somebody looks.
_LOOKS_S = 1.5
_MOST_S = 10.0


class Operator:
    """A thread, with a log of its own."""

    def __init__(self, target: str, log: Path) -> None:
        self._target, self._log = target, Writer(log)
        self._redriven: set[str] = set()
        self._is_over = Event()
        self._thread = Thread(target=self._run, name="operator")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._log.close()

    def _run(self) -> None:
        with SyncClient(self._target, timeout=_MOST_S) as client:
            while not self._is_over.wait(_LOOKS_S):
                try:
                    self._look(client)
                except TimerdError:
                    # What became of it the next look shows.
                    continue

    def _look(self, client: SyncClient) -> None:
        for each in client.queues.keys(HALT):
            if each.halted and each.task_id is not None:
                self._release(client, each.key, each.task_id)

    def _release(self, client: SyncClient, key: str, task_id: str) -> None:
        is_again = task_id in self._redriven
        self._log.write(Released(task_id, not is_again, now_ms()))
        self._redriven.add(task_id)
        if is_again:
            client.queues.skip_key(HALT, key, task_id=task_id)
        else:
            client.redrive([task_id])
