"""The tokens of the rates of limit keys whose homes this instance keeps, for all instances (rules T1 to T5 of
docs/understand/protocol.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from timerd.core.regulation import KeyAsk, LimitedKey, LimitsOfKeys
from timerd.services.holding.membership import Membership
from timerd.services.regulation.keepers import HomeKeepers
from timerd.services.regulation.permit_wire import LoanReply
from timerd.services.regulation.token_wire import KeysDrawReply


class KeyTokenIssuer:
    """Of one instance. `boot_ms`: a clock that is never set."""

    def __init__(
        self, keepers: HomeKeepers, limits: LimitsOfKeys, membership: Membership, boot_ms: Callable[[], float]
    ) -> None:
        self._keepers = keepers
        self._limits = limits
        self._membership = membership
        self._boot_ms = boot_ms

    def place_of(self, home: int) -> str:
        """The instance that is to keep it. Empty: none lives."""
        return self._keepers.place_of(home)

    async def drawn(self, home: int, name: str, asks: Mapping[LimitedKey, KeyAsk]) -> KeysDrawReply:
        """By who keeps the home. Raises StoreUnavailable, StoreUnknown."""
        books = await self._keepers.found(home)
        if isinstance(books, LoanReply):
            return KeysDrawReply(books.keeper)
        now_ms = self._boot_ms()
        if not self._membership.trust.is_trusted(now_ms):
            # T4: another one may keep it by now.
            return KeysDrawReply("")
        grants = {
            key: books.tokens.draw(key, name, ask.want, ask.hold_ms, self._limits.limit_of(key), int(now_ms))
            for key, ask in asks.items()
        }
        return KeysDrawReply(self._membership.name, grants)
