"""beanstalkd through a bare socket: puts and reserves are pipelined, since one at a time would measure the wire.

Delays are whole seconds from the put; they are rounded up, for no task may come early. Where all tasks are due at one
instant, a whole second, rounding would spread them over the second after it. There they are rounded down, and the tube
is paused until that instant: a pause counts whole seconds as well, but it is one command, which can be sent on a second.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.peers.clients.talk import Client, Enter, Task, obey

TTR_S = 120


class Beanstalk(Client):
    """`fetch` reserves are under way at once."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        super().__init__(target, options)
        host, _, port = target.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb", buffering=1 << 18)
        self._instant_s = 0

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        now_s = time.time()
        rounded = math.floor if self._instant_s else math.ceil
        self._socket.sendall(b"".join(_put(task, max(0, rounded(task.due_ms / 1e3 - now_s))) for task in tasks))
        return [self._word(b"INSERTED") for _ in tasks]

    def cancel(self, ids: Sequence[Any]) -> int:
        self._socket.sendall(b"".join(b"delete %d\r\n" % one for one in ids))
        return sum(self._answers.readline() == b"DELETED\r\n" for _ in ids)

    def count(self) -> int:
        self._socket.sendall(b"stats-tube default\r\n")
        size = self._word(b"OK")
        lines = self._answers.read(size + 2).decode().splitlines()
        states = ("current-jobs-ready", "current-jobs-delayed", "current-jobs-reserved", "current-jobs-buried")
        return sum(int(value) for name, _, value in (line.partition(": ") for line in lines) if name in states)

    def one_instant(self, due_ms: int) -> None:
        if due_ms % 1_000 == 0:
            self._instant_s = due_ms // 1_000
            # Longer than needed, until all is stored.
            self._pause(math.ceil(self._instant_s - time.time()) + 1)

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


def _put(task: Task, delay_s: int) -> bytes:
    return b"put 0 %d %d %d\r\n%s\r\n" % (delay_s, TTR_S, len(task.payload), task.payload.encode())


if __name__ == "__main__":
    obey(Beanstalk)
