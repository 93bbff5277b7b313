"""A sink that appends what is due to a file, one payload a line, and acknowledges what it has written."""

from __future__ import annotations

import asyncio
from pathlib import Path

from timerd.core.dispatch.delivery_machine import Assignment
from timerd.core.dispatch.interrupts import InterruptReason
from timerd.core.dispatch.settlement import Action
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.dispatch.tokens import ack_tokens

LEASE_MS = 30_000
CREDIT = 100


class FileSink:
    """Implements services.dispatch.ports.Sink. `is_stuck`: it writes, and says nothing of it, like one that hangs."""

    lease_ms = LEASE_MS
    counts_as_worker = False
    takes_backlog = True

    def __init__(self, delivery: Delivery, path: Path, namespace: str = "default") -> None:
        self.number = delivery.next_number()
        self.namespace = namespace
        self.closing = False
        self.is_stuck = False
        self._path = path
        self._delivery = delivery
        self._sequence = 0

    def join(self, *queues: str) -> None:
        self._delivery.join(self, self.namespace, LEASE_MS)
        for queue in queues:
            self._delivery.credit(self, queue, CREDIT)

    def delivered(self) -> list[bytes]:
        return self._path.read_bytes().splitlines() if self._path.exists() else []

    def deliver(self, assignment: Assignment) -> Sent:
        rows = assignment.taken.rows
        lines = b"".join(rows.payload(row) + b"\n" for row in range(len(rows)))
        with self._path.open("ab") as file:
            file.write(lines)
        # The round that calls this goes on first.
        asyncio.get_running_loop().call_soon(self._written, assignment)
        return Sent(1, len(lines))

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        """Nobody waits for the confirmation."""

    def confirm(self, confirmation: Confirmation) -> None:
        """What was refused was over before."""

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        """It is written by then."""

    def go_away(self) -> None:
        """Nothing is under way after `deliver`."""

    def _written(self, assignment: Assignment) -> None:
        if not self.is_stuck:
            self._sequence += 1
            tokens = ack_tokens(assignment.taken, self._delivery.secret)
            self._delivery.settle(self, self._sequence, Action.ACK, tokens, None, "")
        self._delivery.credit(self, assignment.taken.rows.template_of(0).queue, len(assignment.taken))
