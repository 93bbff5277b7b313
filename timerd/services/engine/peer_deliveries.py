"""The other instances, as the settling of deliveries sees them."""

from __future__ import annotations

from typing import Protocol

from timerd.core.dispatch import Failure
from timerd.model.ack_token import AckToken
from timerd.model.partition import Partition


class PeerDeliveries(Protocol):
    """Deliveries whose rows wait with other instances."""

    async def fail(self, partition: Partition, namespace: str, token: AckToken, failure: Failure) -> bool | None:
        """Tells the instance that holds the partition of a failed delivery of the namespace whose row waits there.
        Returns whether the failure counted; None: no instance said that it holds the partition."""
        ...

    def look_for(self, delivery_id: bytes, hold_ms: int) -> None:
        """Tells all that the row of an acked delivery is looked for, so that it does not fire for so long. 0: it is
        looked for no longer."""
        ...
