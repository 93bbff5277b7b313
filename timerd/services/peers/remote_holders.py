"""The instance that holds a partition which this one does not, and what it says.

Always in this order: the write is durable, *then* the control row is read serially, *then* the holder that it names is
asked, by the token that it names. "I do not hold it by that token" from it, when the control row still says so, means
that nobody will send anything there before it has read what is durable now: then nobody holds it. No answer is not
that: it may be sending at this moment.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from timerd.core.cluster import holder_of
from timerd.core.partition import Asked, Offered
from timerd.core.protocol import AskToEnd, AskToMove, HolderAnswer, OfferRows
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control
from timerd.model.rows import RowGroup
from timerd.ports import Store
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.peers.fresh_controls import FreshControls
from timerd.services.peers.peer_wire import HintedRows, Holder
from timerd.services.peers.peers import Peers, Silent

# A partition does not change hands more often than this while one call looks for its holder.
LOOKS = 5
# Holders that were seen last, for notices that need no certainty.
MOST_KNOWN = 10_000
SILENT = HolderAnswer(Asked.SILENT)
Answer = TypeVar("Answer")


class MemberView(Protocol):
    """The instances of the cluster, as this one (`name`) sees them."""

    @property
    def name(self) -> str: ...

    def live(self) -> tuple[str, ...]:
        """With itself."""

    def address_of(self, name: str) -> str:
        """Empty where it is not known."""
        ...

    def may_take(self, control: Control) -> bool:
        """Whether the lease of the holder that is named there is over."""
        ...

    async def confirm(self, control: Control) -> None:
        """Looks at the named holder once more."""


class RemoteHolders:
    """Implements PeerView. `is_trusted`: whether this instance may believe that what it holds is still its own."""

    def __init__(
        self,
        store: Store,
        own: OwnMachines,
        members: MemberView,
        peers: Peers,
        is_trusted: Callable[[], bool],
        is_near: Callable[[Partition], bool],
    ) -> None:
        self._controls = FreshControls(store)
        self._own = own
        self._members = members
        self._peers = peers
        self._is_trusted = is_trusted
        self._is_near = is_near
        self._known: dict[Partition, Holder] = {}

    # Where each takes calls over a network, a day's three hundred are not gone through one by one.
    side_by_side = 16
    is_single = False

    def is_here(self, partition: Partition) -> bool:
        return self._own.holds(partition) and self._is_trusted()

    # -- questions ------------------------------------------------------------------------------------------------

    async def ask_to_end(self, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        async def here() -> list[HolderAnswer]:
            return await self._own.ask_to_end(asks)

        async def there(holder: Holder) -> list[HolderAnswer] | None:
            return await self._peers.ask_to_end(holder, partition, asks)

        try:
            said = await self._of_holder(partition, None, here, there)
        except Silent:
            return [SILENT] * len(asks)
        return said if said is not None else [HolderAnswer(None)] * len(asks)

    async def ask_to_move(self, partition: Partition, asks: Sequence[AskToMove]) -> list[HolderAnswer]:
        async def here() -> list[HolderAnswer]:
            return list(map(self._own.ask_to_move, asks))

        async def there(holder: Holder) -> list[HolderAnswer] | None:
            return await self._peers.ask_to_move(holder, partition, asks)

        try:
            said = await self._of_holder(partition, None, here, there)
        except Silent:
            return [SILENT] * len(asks)
        return said if said is not None else [HolderAnswer(None)] * len(asks)

    async def offer(self, request: OfferRows) -> Offered | None:
        """The control row that came with the rows is fresh enough to begin with. Where nobody holds the partition and
        this instance is about to, it remembers that the rows go elsewhere."""

        async def here() -> Offered | None:
            return self._own.offer(request)

        async def there(holder: Holder) -> Offered | None:
            return await self._peers.offer(holder, request)

        try:
            said = await self._of_holder(request.partition, request.control, here, there)
            return said or await self._offer_to_next(request)
        except Silent:
            return Offered.SILENT

    async def _offer_to_next(self, request: OfferRows) -> Offered | None:
        """Between two holders: the next one might read the rows where they are, and is told that they go elsewhere."""
        if self._own.is_acquiring(request.partition):
            return self._own.offer(request)
        control = await self._controls.of(request.partition)
        name = control.successor if control is not None and not control.holder else ""
        if name in ("", self._members.name) or name not in self._members.live():
            return None
        return await self._peers.offer(Holder(name, self._members.address_of(name), 0), request)

    async def in_hand(self, partition: Partition, rows: Sequence[tuple[RowKey, int]]) -> Sequence[bool] | None:
        async def here() -> Sequence[bool]:
            return [self._own.is_in_hand(partition, *row) for row in rows]

        async def there(holder: Holder) -> Sequence[bool] | None:
            return await self._peers.in_hand(holder, partition, rows)

        try:
            said = await self._of_holder(partition, None, here, there)
        except Silent:
            return None
        return said if said is not None else [False] * len(rows)

    async def may_return(self, partition: Partition, key: RowKey) -> bool | None:
        async def here() -> bool | None:
            return self._own.may_return(partition, key)

        async def there(holder: Holder) -> bool | None:
            return await self._peers.may_return(holder, partition, key)

        try:
            return await self._of_holder(partition, None, here, there)
        except Silent:
            return True

    async def _of_holder(
        self,
        partition: Partition,
        first: bytes | None,
        here: Callable[[], Awaitable[Answer | None]],
        there: Callable[[Holder], Awaitable[Answer | None]],
    ) -> Answer | None:
        """None: nobody holds the partition. Raises Silent."""
        refused: Holder | None = None
        for _ in range(LOOKS):
            control = Control.from_bytes(first) if first is not None else await self._controls.of(partition)
            first = None
            # A look may tell another address.
            is_over = control is not None and await self._is_over(control)
            holder = self._holder(partition, control)
            is_own = holder is not None and holder.name == self._members.name
            if holder is None or is_over or (holder == refused and not is_own):
                return None
            if not is_own:
                said = await there(holder)
            else:
                # Once more as well: the answer to the change by which it holds the partition may have come since.
                said = await here() if self._own.token(partition) == holder.token else None
            if said is not None or holder == refused:
                return said
            refused = holder
        raise Silent(f"{partition} goes from hand to hand.")

    async def _is_over(self, control: Control) -> bool:
        """Whether the named holder's lease is. Who was started anew holds by an incarnation that is not known yet."""
        if control.holder == self._members.name or not self._members.may_take(control):
            return False
        await self._members.confirm(control)
        return self._members.may_take(control)

    def _holder(self, partition: Partition, control: Control | None) -> Holder | None:
        """An instance that was restarted may have another address than the control row says."""
        if control is None or control.finished or not control.holder:
            self._known.pop(partition, None)
            return None
        name = control.holder
        address = self._members.address_of(name) if name in self._members.live() else control.address
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[partition] = Holder(name, address, control.token)
        return self._known[partition]

    # -- hints ----------------------------------------------------------------------------------------------------

    def hint(self, partition: Partition, rows: RowGroup, source: int, control: bytes | None) -> bool:
        """To the holder where it lives, else to the instance that should hold what is due soon."""
        if self._own.token(partition) is not None:
            return False
        found = Control.from_bytes(control) if control is not None else None
        holder = self._holder(partition, found)
        if holder is None or (found is not None and self._members.may_take(found)):
            holder = self._next(partition, found)
        if holder is None or holder.name == self._members.name:
            return holder is None
        self._peers.hint(holder.address, HintedRows(partition, rows, source))
        return True

    def _next(self, partition: Partition, control: Control | None) -> Holder | None:
        """Who is to hold it, if that is soon."""
        live = self._members.live()
        if not live:
            return None
        named = control.successor if control is not None else ""
        name = named if named in live else holder_of(partition, live)
        if name != self._members.name and not self._is_near(partition):
            return None
        return Holder(name, self._members.address_of(name), 0)

    def recheck(self, partition: Partition, digests: Sequence[bytes]) -> None:
        holder = self._known.get(partition)
        if holder is not None and holder.name != self._members.name:
            self._peers.recheck(holder.address, partition, digests)

    def hand_over(self, address: str, partition: Partition, control: Control | None) -> None:
        self._peers.hand_over(address, partition, control)
