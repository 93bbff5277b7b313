"""Streams that are open when somebody's roles are taken away: those that go on by them end.

They are looked at when the principals change; a message costs nothing. A stream that must end is told why in its
status, after what it is owed where its service knows an end in order, and after a while in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from timerd.model.errors import NotStored

# Somebody has to look where nobody calls.
LOOK_EVERY_S = 1.0
# For what a stream is owed.
ENDED_S = 3.0


class OpenStream:
    """`check` raises NotStored once its caller may no longer have it; from then on that is its `refusal`."""

    def __init__(self, check: Callable[[], None]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.refusal: NotStored | None = None
        self._stop: Callable[[], None] = self._cut
        self._check = check
        self._task = task
        self._cuts = 0
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        if self.refusal is not None:
            return
        try:
            self._check()
        except NotStored as error:
            # Without a reason: what this stream asked for before may well be stored.
            self.refusal = type(error)(f"Who may do what has changed since this stream began. {error}", "")
            self._timer = asyncio.get_running_loop().call_later(ENDED_S, self._cut)
            self._stop()

    def end_by(self, stop: Callable[[], None]) -> None:
        """`stop` ends it in order from now on."""
        self._stop = stop

    def _cut(self) -> None:
        self._cuts += 1
        self._task.cancel(self.refusal)

    def is_only_cut(self) -> bool:
        """Whether nobody else has cancelled its call. Then it is cancelled no longer."""
        return self._cuts > 0 and [self._task.uncancel() for _ in range(self._cuts)][-1] == 0

    def left(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


_THIS: ContextVar[OpenStream | None] = ContextVar("open_stream", default=None)


def end_by(stop: Callable[[], None]) -> None:
    """In a stream that can end in order: `stop` is called for that. Others are cancelled."""
    stream = _THIS.get()
    if stream is not None:
        stream.end_by(stop)


def is_refused(ended: BaseException) -> bool:
    """Whether a status will follow, which a write that is cut off half-way would take with it."""
    return isinstance(ended, NotStored) or any(isinstance(each, NotStored) for each in ended.args)


class OpenStreams:
    """Of one server. `refresh` looks whether the principals have changed, and has `look` called if so."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh
        self._streams: set[OpenStream] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def one(self, check: Callable[[], None]) -> Iterator[None]:
        """Raises the refusal where that is how the stream ended."""
        stream = OpenStream(check)
        self._enter(stream)
        try:
            yield
        except asyncio.CancelledError:
            if not stream.is_only_cut():
                raise
        finally:
            self._leave(stream)
        if stream.refusal is not None:
            raise stream.refusal

    def look(self) -> None:
        for stream in list(self._streams):
            stream.look()

    def _enter(self, stream: OpenStream) -> None:
        _THIS.set(stream)
        self._streams.add(stream)
        if self._timer is None:
            self._look_later()

    def _leave(self, stream: OpenStream) -> None:
        stream.left()
        self._streams.discard(stream)
        if not self._streams and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_EVERY_S, self._looked_at)

    def _looked_at(self) -> None:
        self._look_later()
        self._refresh()
