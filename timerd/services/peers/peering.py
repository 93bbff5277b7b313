"""One instance among others: makes its procedures ask them, and lets them ask it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from timerd.config import ServerConfig
from timerd.core.instance_machine import InstanceMachine
from timerd.model.partition import Partition
from timerd.ports import Hints, Store
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler
from timerd.services.peers.hint_seal import HintSeal
from timerd.services.peers.peer_service import PeerService
from timerd.services.peers.peer_wire import peer_token
from timerd.services.peers.peers import Peers
from timerd.services.peers.remote_holders import RemoteHolders
from timerd.services.peers.second_way import SecondWay


@dataclass(frozen=True, slots=True)
class Peering:
    """`service.handler()` goes to the server, `peers` is closed at the end."""

    peers: Peers
    service: PeerService


def peering(
    store: Store,
    scheduler: Scheduler,
    secret: bytes,
    time: EngineTime,
    config: ServerConfig,
    hints: Hints | None = None,
) -> Peering:
    """From here on the scheduler's procedures ask the other instances. `hints`: a way to those that do not answer."""
    own, members, token = scheduler.procedures.own, scheduler.membership, peer_token(secret)
    peers, instance = Peers(token, config.tls), InstanceMachine(config.look_ahead_ms)

    def is_near(partition: Partition) -> bool:
        return instance.is_near(partition, int(time.exact_ms()))

    scheduler.procedures.others = RemoteHolders(store, own, members, peers, lambda: time.is_sure, is_near)
    scheduler.hand_over.notices = peers
    members.on_change(lambda: peers.keep([members.address_of(name) for name in members.live()]))

    # One that was called in vain may have heard it all the same, and hears it by the second way as well.
    heard = partial(scheduler.hint, may_repeat=True)
    if hints is not None:
        second = SecondWay(hints, members, HintSeal(secret), heard)
        second.listen()
        peers.other_way = second
    return Peering(peers, PeerService(members.name, token, own, heard, scheduler.receive, time.exact_ms))
