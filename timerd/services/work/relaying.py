"""One instance among others: its workers get the tasks of all instances, and theirs get those of this one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from timerd.model.partition import Partition
from timerd.peer.v1.relay_pb2 import AckLookedFor
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.peers.peers import Peers
from timerd.services.transport.hanging_up import HangingUp
from timerd.services.work.credit_allocation import CreditAllocation
from timerd.services.work.home import Home
from timerd.services.work.link import Links, Neighbours
from timerd.services.work.moving_away import Moved, moved_away
from timerd.services.work.peer_links import PeerLinks
from timerd.services.work.relay_service import RelayService

log = logging.getLogger(__name__)
# One that does not answer is not waited for longer. On a machine that is overrun an answer takes seconds, and what is
# cut off for want of it waits for a lease of half a minute.
SYNC_S = 10.0


@dataclass(frozen=True, slots=True)
class Relaying:
    """`home` serves the Work streams, `service.handler()` goes to the server, `gone` hears of partitions that another
    instance has from then on, `links` are closed at the end."""

    home: Home
    service: RelayService
    peer_links: PeerLinks
    links: Links
    gone: Callable[[Partition], None]

    async def sync(self) -> None:
        """What the others have sent for workers of this instance is on their streams: else it would be taken for
        delivered, and wait for the end of its lease."""
        try:
            async with asyncio.timeout(SYNC_S):
                await self.peer_links.sync()
        except TimeoutError:
            log.warning("not every instance has answered in %g s: what it has sent here may come late", SYNC_S)


def relaying(
    delivery: Delivery,
    allocation: CreditAllocation,
    peer_links: PeerLinks,
    firing: SchedulerFiring,
    neighbours: Neighbours,
    peers: Peers,
    token: str,
    hanging_up: HangingUp,
    moved: Moved,
) -> Relaying:
    """From here on delivery takes part in the work of all instances. `moved` hears of deliveries that go to others."""
    home = Home(delivery, allocation)

    def goes_away(name: str) -> bool:
        return name in neighbours.present() and name not in neighbours.live()

    def looked_for(said: AckLookedFor) -> None:
        firing.looking.told(said.delivery_id, said.hold_ms, delivery.clock_ms())

    service = RelayService(delivery, allocation.asking, token, goes_away, hanging_up, looked_for)

    def gone(partition: Partition) -> None:
        firing.looking.gave_away()
        moved_away(partition, firing.waiting_in(partition), delivery, home, moved)

    return Relaying(home, service, peer_links, Links(home, neighbours, peers.channel, peers.metadata), gone)
