"""One instance among others: its workers get the tasks of all instances, and theirs get those of this one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from timerd.model.partition import Partition
from timerd.services.asking import Asking
from timerd.services.delivery import Delivery
from timerd.services.home import Home
from timerd.services.lending import Lending
from timerd.services.link import Links, Neighbours
from timerd.services.moving_away import moved_away
from timerd.services.peers import Peers
from timerd.services.relay_service import RelayService
from timerd.services.verbs import Firing


@dataclass(frozen=True, slots=True)
class Relaying:
    """`home` serves the Work streams, `service.handler()` goes to the server, `gone` hears of partitions that another
    instance has from then on, `links` are closed at the end."""

    home: Home
    service: RelayService
    links: Links
    gone: Callable[[Partition], None]


def relaying(delivery: Delivery, firing: Firing, neighbours: Neighbours, peers: Peers, token: str) -> Relaying:
    """From here on delivery takes part in the work of all instances."""
    asking = Asking(delivery.machine, firing)
    lending = Lending(delivery, firing, asking)
    delivery.abroad = lending
    home = Home(delivery, lending)
    service = RelayService(delivery, asking, token)

    def gone(partition: Partition) -> None:
        moved_away(partition, delivery, home)

    return Relaying(home, service, Links(home, neighbours, peers.channel, peers.metadata), gone)
