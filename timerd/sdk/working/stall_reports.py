"""Tells the server of handlers that may not be silent for long, before it takes them for stalled.

The server ends an attempt whose `stall_timeout` is over two seconds after the worker does. What a handler has said
would come too late with the next sign of life of the worker, so it is told shortly before. What waits here for its
handler has not stalled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from math import inf
from time import monotonic

from timerd.sdk.working.leases import Hold, InHand
from timerd.v1 import work_service_pb2 as pb

_LOOK_S = 0.5
# So long before the server's first chance to miss it.
_AHEAD_S = 2 * _LOOK_S


class StallReports:
    """`send`: takes reports to the server; whether it could."""

    def __init__(self, in_hand: InHand, send: Callable[[list[pb.ProgressReport]], bool]) -> None:
        self._in_hand = in_hand
        self._send = send
        # By ack token: of when the last word is that the server has.
        self._told_s: dict[bytes, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> None:
        """Something of the kind has come."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def repeat(self) -> None:
        """What was told on a stream that broke may have been lost."""
        self._told_s.clear()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if not (holds := self._in_hand.stalling()):
            self._told_s.clear()
            return
        now_s = monotonic()
        due = {token: heard_s for hold in holds for token, heard_s in self._due(hold, now_s)}
        if due and self._send([self._in_hand.report_of(token, now_s - heard_s) for token, heard_s in due.items()]):
            self._told_s |= due
        self.watch()

    def _due(self, hold: Hold, now_s: float) -> Iterator[tuple[bytes, float]]:
        """Tokens of which the server is to hear now, and when their handler has said something last."""
        heard_s = min(now_s, hold.heard_s())
        for token, stall_s in zip(hold.each_token(), hold.stalls_s(), strict=True):
            told_s = self._told_s.get(token, hold.batch.received_s)
            if stall_s < inf and told_s < heard_s and told_s + stall_s <= now_s + _AHEAD_S:
                yield token, heard_s
