"""beanstalkd through a bare socket: puts and reserves are pipelined, since one at a time would measure the wire.

Delays are whole seconds from the put. In general they are rounded up, for no task may come early. Where that would be
measured as lateness, the tasks are put so that rounding costs nothing:

- due over some seconds, each is put a whole number of seconds before its instant;
- due at one instant, a whole second, they are rounded down and the tube is paused until then. A pause counts whole
  seconds as well, but it is one command, which can be sent on a second.
"""

from __future__ import annotations

import math
import socket
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.peers.clients.talk import Client, Enter, Task, obey

TTR_S = 120
# Longer than this nobody waits to put each task at its time.
SOME_SECONDS_MS = 10_000


class Beanstalk(Client):
    """`fetch` reserves are under way at once."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        super().__init__(target, options)
        host, _, port = target.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", buffering=1 << 18)
        self._instant_s = self._ahead_s = 0

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        if self._ahead_s:
            return self._store_on_time(tasks)
        now_s = time.time()
        rounded = math.floor if self._instant_s else math.ceil
        return self._put((task, max(0, rounded(task.due_ms / 1e3 - now_s))) for task in tasks)

    def _store_on_time(self, tasks: Sequence[Task]) -> list[Any]:
        """Ordered by their instants; each as soon as it is due in so many seconds."""
        ids: list[Any] = []
        while len(ids) < len(tasks):
            time.sleep(max(0.0, tasks[len(ids)].due_ms / 1e3 - self._ahead_s - time.time()))
            end = bisect_right(tasks, time.time_ns() // 1_000_000 + self._ahead_s * 1_000, key=lambda one: one.due_ms)
            ids += self._put((task, self._ahead_s) for task in tasks[len(ids) : end])
        return ids

    def _put(self, tasks: Iterable[tuple[Task, int]]) -> list[Any]:
        puts = [
            b"put 0 %d %d %d\r\n%s\r\n" % (delay_s, TTR_S, len(task.payload), task.payload.encode())
            for task, delay_s in tasks
        ]
        self._socket.sendall(b"".join(puts))
        return [self._word(b"INSERTED") for _ in puts]

    def cancel(self, ids: Sequence[Any]) -> int:
        self._socket.sendall(b"".join(b"delete %d\r\n" % one for one in ids))
        return sum(self._answers.readline() == b"DELETED\r\n" for _ in ids)

    def count(self) -> int:
        self._socket.sendall(b"stats-tube default\r\n")
        size = self._word(b"OK")
        lines = self._answers.read(size + 2).decode().splitlines()
        states = ("current-jobs-ready", "current-jobs-delayed", "current-jobs-reserved", "current-jobs-buried")
        return sum(int(value) for name, _, value in (line.partition(": ") for line in lines) if name in states)

    def arranged(self, tasks: Sequence[Task], from_ms: int, span_ms: int) -> Sequence[Task]:
        left_s = from_ms / 1e3 - time.time()
        if span_ms == 1 and from_ms % 1_000 == 0:
            self._instant_s = from_ms // 1_000
            # Longer than needed, until all is stored.
            self._pause(math.ceil(left_s) + 1)
        elif span_ms < SOME_SECONDS_MS and math.floor(left_s) * 1_000 > span_ms:
            self._ahead_s = math.floor(left_s)
            return sorted(tasks, key=lambda task: task.due_ms)
        return tasks

    def ready(self) -> None:
        if self._instant_s:
            second = math.ceil(time.time())
            while (left_s := second - time.time()) > 0:
                time.sleep(left_s)
            self._pause(max(0, self._instant_s - second))

    def _pause(self, seconds: int) -> None:
        self._socket.sendall(b"pause-tube default %d\r\n" % seconds)
        if (line := self._answers.readline()) != b"PAUSED\r\n":
            raise RuntimeError(f"beanstalkd answered {line!r} to a pause.")

    def consume(self, enter: Enter) -> None:
        self._socket.sendall(b"reserve\r\n" * int(self.options.get("fetch", 50)))
        while line := self._answers.readline():
            if line == b"DELETED\r\n":
                continue
            word, job, size = line.split()
            if word != b"RESERVED":
                raise RuntimeError(f"beanstalkd answered {line!r} to a reserve.")
            body = self._answers.read(int(size) + 2)[:-2]
            enter([body])
            self._socket.sendall(b"delete %s\r\nreserve\r\n" % job)

    def _word(self, expected: bytes) -> int:
        line = self._answers.readline()
        word, _, number = line.strip().partition(b" ")
        if word != expected:
            raise RuntimeError(f"beanstalkd answered {line!r}.")
        return int(number)


if __name__ == "__main__":
    obey(Beanstalk)
