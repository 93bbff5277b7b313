"""One instance among others: its procedures ask them, and they ask it."""

from __future__ import annotations

from dataclasses import dataclass

from timerd.config import ServerConfig
from timerd.core.instance_machine import InstanceMachine
from timerd.model.partition import Partition
from timerd.ports import Hints, Store
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.membership import Membership
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.holding.scheduler import Scheduler
from timerd.services.peers.hint_seal import HintSeal
from timerd.services.peers.peer_service import PeerService
from timerd.services.peers.peer_wire import peer_token
from timerd.services.peers.peers import Connect, Peers
from timerd.services.peers.remote_holders import RemoteHolders
from timerd.services.peers.second_way import SecondWay


class Calling:
    """The calls of one instance to the others: made before the scheduler, which asks them. `hints`: a way to those that
    do not answer."""

    def __init__(
        self,
        store: Store,
        members: Membership,
        secret: bytes,
        time: EngineTime,
        config: ServerConfig,
        hints: Hints | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.token = peer_token(secret)
        self.second = SecondWay(hints, members, HintSeal(secret)) if hints is not None else None
        self.peers = Peers(self.token, config.tls, self.second, connect)
        self._store, self._members, self._time = store, members, time
        self._instance = InstanceMachine(config.look_ahead_ms)

    def view(self, own: OwnMachines) -> RemoteHolders:
        """What the procedures of this instance see of the others. `own`: its machines."""
        time = self._time
        return RemoteHolders(self._store, own, self._members, self.peers, lambda: time.is_sure, self._is_near)

    def _is_near(self, partition: Partition) -> bool:
        return self._instance.is_near(partition, int(self._time.exact_ms()))


@dataclass(frozen=True, slots=True)
class Peering:
    """`service.handler()` goes to the server, `peers` is closed at the end."""

    peers: Peers
    service: PeerService


def peering(calling: Calling, scheduler: Scheduler, time: EngineTime) -> Peering:
    """From here on the scheduler hears the other instances."""
    own, members, peers = scheduler.procedures.own, scheduler.membership, calling.peers
    members.on_change(lambda: peers.keep([members.address_of(name) for name in members.live()]))
    if calling.second is not None:
        calling.second.listen(scheduler.hint)
    heard, handed_over = scheduler.hint, scheduler.receive
    return Peering(peers, PeerService(members.name, calling.token, own, heard, handed_over, time.exact_ms))
