"""Hints to instances that cannot be called: by a way past them (see ports.Hints), sealed, to the channel of their life.

It is used only where the call failed. What comes by it is treated as what is called: it may come again, be late, or not
come at all, and nothing depends on it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Mapping
from typing import Protocol

from google.protobuf.message import DecodeError

from timerd.model.partition import Partition
from timerd.model.rows import RowGroup
from timerd.peer.v1 import peer_service_pb2 as pb
from timerd.ports import Hints
from timerd.services.peers.hint_seal import HintSeal
from timerd.services.peers.peer_wire import hints_of

log = logging.getLogger(__name__)
# A larger message is left to the sweep: a channel's engine hangs up on listeners that are so far behind.
MOST_BYTES = 4 << 20
HeardRows = Callable[[Partition, RowGroup, int], None]


class OtherWay(Protocol):
    """Past the calls."""

    def send(self, address: str, hints: pb.HintRequest) -> bool:
        """To who lives at that address. False: they are lost."""
        ...

    def counts(self) -> Mapping[str, int]:
        """Messages by what became of them: a lost one is among the sent ones, and a sent one may be lost unseen."""
        ...

    async def close(self) -> None: ...


class Lives(Protocol):
    """Of the membership what is needed here."""

    @property
    def name(self) -> str: ...

    @property
    def incarnation(self) -> int: ...

    def incarnation_at(self, address: str) -> tuple[str, int] | None: ...


class SecondWay:
    """Between what `peers` calls and what the holder hears."""

    def __init__(self, hints: Hints, lives: Lives, seal: HintSeal) -> None:
        self.hints = hints
        self.sent = self.taken = self.refused = 0
        self._lives = lives
        self._seal = seal

    def listen(self, heard: HeardRows) -> None:
        """`heard` gets all that comes from now on."""

        def receive(channel: str, message: bytes) -> None:
            self._receive(channel, message, heard)

        self.hints.listen(lambda: self._seal.channel(self._lives.name, self._lives.incarnation), receive)

    def send(self, address: str, hints: pb.HintRequest) -> bool:
        life = self._lives.incarnation_at(address)
        content = hints.SerializeToString()
        if life is None or len(content) > MOST_BYTES:
            return False
        channel = self._seal.channel(*life)
        self.sent += 1
        return self.hints.send(channel, self._seal.close(channel, content))

    def _receive(self, channel: str, message: bytes, heard: HeardRows) -> None:
        content = self._seal.open(channel, message)
        if content is None:
            self._refuse()
            return
        try:
            hinted = hints_of(pb.HintRequest.FromString(content))
        except (DecodeError, ValueError, struct.error):
            self._refuse()
            return
        self.taken += 1
        for each in hinted:
            heard(*each)

    def _refuse(self) -> None:
        """Said once: a stranger who can write to the channel could else fill the disk with it."""
        self.refused += 1
        if self.refused == 1:
            log.warning(
                "A message that no instance of this version of this cluster has sent came as a hint, and was dropped: "
                "look who else may write to Redis. More of them are only counted (timerd_hint_messages_total)."
            )

    def counts(self) -> Mapping[str, int]:
        return {"sent": self.sent, "lost": self.hints.lost, "taken": self.taken, "refused": self.refused}

    async def close(self) -> None:
        await self.hints.close()
