"""The membership of one instance by itself: nothing else has to ask whether there is a cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from timerd.core.cluster import HeldBy, LeaseTrust
from timerd.model.codec import CAPABILITIES
from timerd.model.instance import InstanceEntry


class SingleInstance:
    """One member; the lock on its data answers for the lease."""

    incarnation = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.trust = LeaseTrust.always()
        self.events: Mapping[str, int] = {}
        self._address = ""

    def lease_age_ms(self) -> float:
        return 0.0

    def live(self) -> tuple[str, ...]:
        return (self.name,)

    def present(self) -> tuple[str, ...]:
        return ()

    def incarnations(self) -> Mapping[str, int]:
        return {self.name: self.incarnation}

    def has_moved(self, name: str) -> bool:
        return True

    def is_dead(self, entry: InstanceEntry) -> bool:
        return False

    def announced(self) -> Mapping[str, Collection[str]]:
        return {self.name: CAPABILITIES}

    def address_of(self, name: str) -> str:
        return self._address if name == self.name else ""

    def incarnation_at(self, address: str) -> tuple[str, int] | None:
        return None

    def on_change(self, changed: Callable[[], None]) -> None:
        """Nothing changes."""

    def on_lapse(self, lapsed: Callable[[], None]) -> None:
        """The lease is always sure."""

    def on_oust(self, ousted: Callable[[], None]) -> None:
        """There is nobody else."""

    def may_take(self, held: HeldBy) -> bool:
        return True

    async def confirm(self, held: HeldBy) -> None:
        """There is nobody to look at."""

    async def refresh(self) -> None:
        """There is nobody to look at."""

    async def join(self, address: str) -> None:
        self._address = address

    async def step(self) -> None:
        """There is nobody to tell."""

    async def run(self) -> None:
        """There is nobody to tell."""

    async def leaving(self) -> None:
        """There is nobody to hand over to."""

    async def left(self) -> None:
        """There is nobody to tell."""
