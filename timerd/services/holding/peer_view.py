"""The other instances, as this one sees them: they may hold a partition in its place, and take over what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timerd.core.partition import Offered
from timerd.core.protocol import AskToEnd, AskToMove, HolderAnswer, OfferRows
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control
from timerd.model.rows import RowGroup


class PeerView(Protocol):
    """Asked only about partitions that are not `is_here`. `side_by_side`: how many of them one call looks at at a time.
    `is_single`: there are none, so what this instance does not hold, nobody holds."""

    side_by_side: int
    is_single: bool

    def is_here(self, partition: Partition) -> bool:
        """Whether the machines of this instance speak for the partition, also by not being there."""

    async def ask_to_end(self, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]: ...

    async def ask_to_move(self, partition: Partition, asks: Sequence[AskToMove]) -> list[HolderAnswer]: ...

    async def offer(self, request: OfferRows) -> Offered | None: ...

    async def in_hand(self, partition: Partition, rows: Sequence[tuple[RowKey, int]]) -> Sequence[bool] | None:
        """Of each row, and the end of the lease that it waits for: whether a worker has it. None: its holder does not
        answer."""
        ...

    async def may_return(self, partition: Partition, key: RowKey) -> bool | None:
        """Whether a worker has a delivery of the row, or may come back with one from before its partition was taken
        over. None: nobody holds it."""
        ...

    def hint(self, partition: Partition, rows: RowGroup, source: int, control: bytes | None) -> bool:
        """Never waits. False: this instance itself is to hear of the rows."""

    def recheck(self, partition: Partition, digests: Sequence[bytes]) -> None: ...

    def hand_over(self, address: str, partition: Partition, control: Control | None) -> None:
        """Tells the instance at that address that it may take the partition. Nobody waits for this, and it may be lost.
        `control`: its row, as it was left."""
        ...


class NoPeers:
    """There are no other instances."""

    # A commit takes longer than all that can be done meanwhile.
    side_by_side = 1
    is_single = True

    def is_here(self, partition: Partition) -> bool:
        return True

    async def ask_to_end(self, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        return [HolderAnswer(None)] * len(asks)

    async def ask_to_move(self, partition: Partition, asks: Sequence[AskToMove]) -> list[HolderAnswer]:
        return [HolderAnswer(None)] * len(asks)

    async def offer(self, request: OfferRows) -> Offered | None:
        return None

    async def in_hand(self, partition: Partition, rows: Sequence[tuple[RowKey, int]]) -> Sequence[bool] | None:
        return [False] * len(rows)

    async def may_return(self, partition: Partition, key: RowKey) -> bool | None:
        return None

    def hint(self, partition: Partition, rows: RowGroup, source: int, control: bytes | None) -> bool:
        return False

    def recheck(self, partition: Partition, digests: Sequence[bytes]) -> None:
        """There is nobody to tell."""

    def hand_over(self, address: str, partition: Partition, control: Control | None) -> None:
        """There is nobody to tell."""
