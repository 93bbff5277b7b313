"""beanstalkd through a bare socket: puts and reserves are pipelined, since one at a time would measure the wire.

Delays are whole seconds; they are rounded up, for no task may come early.
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

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        now_s = time.time()
        self._socket.sendall(b"".join(_put(task, now_s) for task in tasks))
        return [self._word(b"INSERTED") for _ in tasks]

    def cancel(self, ids: Sequence[Any]) -> int:
        self._socket.sendall(b"".join(b"delete %d\r\n" % one for one in ids))
        return sum(self._answers.readline() == b"DELETED\r\n" for _ in ids)

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


def _put(task: Task, now_s: float) -> bytes:
    delay_s = max(0, math.ceil(task.due_ms / 1e3 - now_s))
    return b"put 0 %d %d %d\r\n%s\r\n" % (delay_s, TTR_S, len(task.payload), task.payload.encode())


if __name__ == "__main__":
    obey(Beanstalk)
