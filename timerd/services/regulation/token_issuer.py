"""The tokens of the rates of limits that this instance keeps, for all instances (rules T1 to T4 of
docs/understand/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable

from timerd.core.regulation import LentLimits, LimitLabels
from timerd.services.holding.membership import Membership
from timerd.services.regulation.keepers import LimitKeepers
from timerd.services.regulation.permit_wire import LoanReply
from timerd.services.regulation.token_wire import DrawReply


class TokenIssuer:
    """Of one instance. `boot_ms`: a clock that is never set."""

    def __init__(
        self,
        keepers: LimitKeepers,
        lent: LentLimits,
        membership: Membership,
        boot_ms: Callable[[], float],
    ) -> None:
        self._keepers = keepers
        self._lent = lent
        self._membership = membership
        self._boot_ms = boot_ms

    def place_of(self, labels: LimitLabels) -> str:
        """The instance that is to keep the limit. Empty: none lives."""
        return self._keepers.place_of(labels)

    async def drawn(self, labels: LimitLabels, name: str, want: int, held_for_ms: int) -> DrawReply:
        """By who keeps the limit. Raises StoreUnavailable, StoreUnknown."""
        books = await self._keepers.found(labels)
        if isinstance(books, LoanReply):
            return DrawReply(books.keeper)
        now_ms = self._boot_ms()
        if not self._membership.trust.is_trusted(now_ms):
            # T3: another one may keep it by now.
            return DrawReply("")
        if held_for_ms:
            books.tokens.hold(held_for_ms, int(now_ms))
        limit = self._lent.limit_of(labels)
        return DrawReply(self._membership.name, books.tokens.draw(name, want, limit, int(now_ms)))
