"""Where gRPC can be used: in the process that used it first, in one event loop at a time, on real sockets and threads.

Elsewhere it waits as if the server were away, fails in odd ways, or ends the process. So that is refused, with a
sentence and before anything is sent.
"""

from __future__ import annotations

import _thread
import asyncio
import os
import select
import socket
import sys
import threading
import weakref

import grpc.aio

from timerd.sdk.values import TimerdError

# Replace what gRPC and asyncio rest on.
_PATCHERS = frozenset({"gevent", "eventlet"})


class Process:
    """The one whose gRPC this is, from the first channel on."""

    def __init__(self) -> None:
        self._used_in: int | None = None
        self._channels: weakref.WeakSet[grpc.aio.Channel] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._held: list[list[grpc.aio.Channel]] = []
        if sys.platform != "win32":
            os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._lock.release)

    def enter(self) -> None:
        """Before a channel is opened. Raises TimerdError."""
        check_unpatched()
        if self._used_in is None:
            self._used_in = os.getpid()
        elif self._used_in != os.getpid():
            raise forked()

    def own(self, channel: grpc.aio.Channel) -> grpc.aio.Channel:
        """Keeps it from being freed in a forked child, also when nobody has it any more.

        The last channel that is freed waits for a thread of gRPC, which the child does not have: the garbage
        collection that meets it there would never end.
        """
        with self._lock:
            self._channels.add(channel)
        return channel

    def _hold(self) -> None:
        # Until it is forked: a lock that another thread has just then would never be free in the child.
        self._lock.acquire()
        self._held.append(list(self._channels))

    def _release(self) -> None:
        self._held.pop()
        self._lock.release()


PROCESS = Process()


def check_unpatched() -> None:
    """Raises TimerdError."""
    parts = (socket.socket, select.select, _thread.start_new_thread)
    patchers = _PATCHERS.intersection(part.__module__.partition(".")[0] for part in parts)
    if patchers:
        raise _misplaced(
            f"{min(patchers)} has replaced the sockets or threads of this process, which asyncio and gRPC cannot work "
            "with: use timerd in a process without its monkey patch.",
            "MONKEY_PATCHED",
        )


def forked() -> TimerdError:
    return _misplaced(
        "gRPC was used before this process was forked, and cannot be used in the child: make the first call and run "
        'the first worker after the fork, or start processes by `multiprocessing.get_context("spawn")`.',
        "FORKED",
    )


class Affinity:
    """The process and the event loop that an open client lives in."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()

    @property
    def is_forked(self) -> bool:
        return self._process != os.getpid()

    @property
    def is_over(self) -> bool:
        """Its loop is closed: whatever lived there has ended."""
        return self._loop.is_closed()

    def check(self) -> None:
        """Raises TimerdError where the caller is somewhere else."""
        if self.is_forked:
            raise forked()
        if asyncio.get_running_loop() is not self._loop:
            raise _misplaced(
                "This client lives in another event loop, which is not closed: make one for each loop, or use "
                "`SyncClient`, which serves all threads.",
                "OTHER_LOOP",
            )


def _misplaced(sentence: str, reason: str) -> TimerdError:
    return TimerdError(sentence, code="FAILED_PRECONDITION", reason=reason)
