"""Ends of deliveries on their way to the server: kept, and sent again on every new stream, until confirmed.

Ends of one loop turn with the same disposition share a message. A confirmation that refuses some tokens for a passing
reason brings these back; any other refusal is final (the task ended otherwise, or another worker has it).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass

from timerd.sdk.values import error_of_problem, is_retryable
from timerd.sdk.working.dispositions import ACK, RELEASE, Disposition
from timerd.sdk.working.leases import DEFAULT_TOKEN_BYTES
from timerd.v1 import work_service_pb2 as pb

log = logging.getLogger("timerd.worker")
# Keeps a message below 1 MiB.
_MAX_TOKENS = 8000


@dataclass(slots=True)
class _Sent:
    disposition: Disposition
    tokens: bytes
    data: bytes


class Settler:
    """Collects, numbers, repeats and forgets."""

    def __init__(self) -> None:
        self.token_bytes = DEFAULT_TOKEN_BYTES
        self._sequence = 0
        self._collected: defaultdict[Disposition, list[bytes]] = defaultdict(list)
        self._unconfirmed: dict[int, _Sent] = {}
        self._pings: dict[int, asyncio.Event] = {}

    @property
    def is_idle(self) -> bool:
        return not self._collected and not self._unconfirmed

    @property
    def is_releasing(self) -> bool:
        """Whether the server has not confirmed yet all that went back to it unbegun."""
        return RELEASE in self._collected or any(sent.disposition is RELEASE for sent in self._unconfirmed.values())

    def add(self, disposition: Disposition, tokens: bytes) -> None:
        self._collected[disposition].append(tokens)

    def take_new(self) -> list[bytes]:
        """Messages with all that was collected; from here on they wait for their confirmation."""
        messages = []
        for disposition, parts in self._collected.items():
            tokens, step = b"".join(parts), _MAX_TOKENS * self.token_bytes
            messages += [self._number(disposition, tokens[at : at + step]) for at in range(0, len(tokens), step)]
        self._collected.clear()
        return messages

    def _number(self, disposition: Disposition, tokens: bytes) -> bytes:
        self._sequence += 1
        settle = pb.Settle(
            sequence=self._sequence,
            action=disposition.action,
            ack_tokens=tokens,
            delay_ms=disposition.delay_ms,
            error=disposition.error,
            result=disposition.result.to_proto() if disposition.result is not None else None,
            keep_result_ms=disposition.keep_result_ms,
        )
        if disposition.throttled is not None:
            settle.throttle.limit = disposition.throttled
            settle.throttle.by_key = disposition.throttled_key
            settle.throttle.after.FromMilliseconds(disposition.delay_ms or 0)
        data = pb.WorkRequest(settle=settle).SerializeToString()
        self._unconfirmed[self._sequence] = _Sent(disposition, tokens, data)
        return data

    def ping(self) -> tuple[bytes, asyncio.Event]:
        """A message that settles nothing, and its confirmation."""
        data = self._number(ACK, b"")
        confirmed = self._pings[self._sequence] = asyncio.Event()
        return data, confirmed

    def goodbye(self) -> tuple[bytes, asyncio.Event]:
        """As `ping`, after which nothing new comes on this stream; on the next one there is no need for it."""
        data = self._number(RELEASE, b"")
        del self._unconfirmed[self._sequence]
        confirmed = self._pings[self._sequence] = asyncio.Event()
        return data, confirmed

    def unconfirmed(self) -> list[bytes]:
        return [sent.data for sent in self._unconfirmed.values()]

    def tokens(self) -> bytes:
        """Ended here, but the server may not know yet: it must not hand them out meanwhile."""
        collected = [part for parts in self._collected.values() for part in parts]
        return b"".join([sent.tokens for sent in self._unconfirmed.values()] + collected)

    def confirm(self, confirmed: pb.SettleConfirmed) -> bool:
        """Whether something came back that has to be sent again."""
        for sequence in confirmed.also:
            self._unconfirmed.pop(sequence, None)
            if (ping := self._pings.pop(sequence, None)) is not None:
                ping.set()
        sent = self._unconfirmed.pop(confirmed.sequence, None)
        if (ping := self._pings.pop(confirmed.sequence, None)) is not None:
            ping.set()
        if sent is None or not confirmed.HasField("problem"):
            return False
        size = self.token_bytes
        refused = [sent.tokens[index * size : (index + 1) * size] for index in confirmed.refused]
        problem = error_of_problem(confirmed.problem)
        if is_retryable(problem):
            self.add(sent.disposition, b"".join(refused) or sent.tokens)
            return True
        log.warning("%d deliveries could not be settled: %s", len(refused) or len(sent.tokens) // size, problem)
        return False
