"""One instance among others: makes its procedures ask them, and lets them ask it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from timerd.model.partition import Partition
from timerd.ports import Store
from timerd.services.peer_service import PeerService
from timerd.services.peer_wire import HintedRows, peer_token
from timerd.services.peers import Peers
from timerd.services.remote_holders import Members, RemoteHolders
from timerd.services.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Peering:
    """`service.handler()` goes to the server, `peers` is closed at the end."""

    peers: Peers
    service: PeerService
    holders: RemoteHolders


def peering(
    store: Store,
    scheduler: Scheduler,
    members: Members,
    secret: bytes,
    is_trusted: Callable[[], bool],
    is_near: Callable[[Partition], bool],
    certificate: bytes | None = None,
) -> Peering:
    """From here on the scheduler's procedures ask the other instances."""
    own, token = scheduler.procedures.own, peer_token(secret)
    peers = Peers(token, certificate)
    holders = RemoteHolders(store, own, members, peers, is_trusted, is_near)

    def heard(hinted: HintedRows) -> None:
        """A hint that went astray is dropped: the one who should have it finds the rows."""
        if holders.is_ours(hinted.partition):
            scheduler.hint(*hinted)

    scheduler.procedures.others = holders
    return Peering(peers, PeerService(members.name, token, own, heard), holders)
