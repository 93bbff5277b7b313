"""The HTTP port of a relay, for those who watch: /metrics, /healthz, /readyz, /version."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from timerd.commands.failures import CommandFailure, WrongInput
from timerd.model.errors import StartupError
from timerd.observability.http import HttpPort, Reasons
from timerd.outbox.metrics import exposition
from timerd.outbox.ports import DatabaseAway, DatabaseWrong, OutboxFacts, OutboxStore
from timerd.outbox.relay import Relay
from timerd.services.transport.listen import Address, is_loopback, parse_listen

__all__ = ["watched"]


class _Watching:
    """By a connection of its own to the database, so that nobody who looks holds up the relay."""

    def __init__(self, store: OutboxStore, relay: Relay) -> None:
        self._store = store
        self._relay = relay

    async def metrics(self) -> bytes:
        """Without what is in the tables where the database does not answer."""
        facts, _ = await self._look()
        return exposition(facts, self._relay)

    async def unready(self) -> Mapping[str, Reasons]:
        facts, why = await self._look()
        return {} if facts is not None else {"database": {"away": why}}

    async def _look(self) -> tuple[OutboxFacts | None, str]:
        try:
            return await self._store.facts(), ""
        except (DatabaseAway, DatabaseWrong) as away:
            return None, str(away)


@asynccontextmanager
async def watched(listen: str, store: OutboxStore, relay: Relay) -> AsyncIterator[Address | None]:
    """The port while the block runs; an empty `listen` opens none. It closes `store`. Raises WrongInput and
    CommandFailure."""
    if not listen:
        yield None
        return
    watching = _Watching(store, relay)
    port = HttpPort(watching.metrics, watching.unready, dict)
    try:
        address = await port.start(_address(listen), None)
    except StartupError as wrong:
        raise CommandFailure(str(wrong)) from wrong
    try:
        yield address
    finally:
        await port.stop()
        await store.close()


def _address(listen: str) -> Address:
    """On loopback only: it has no TLS, and asks nobody who calls."""
    try:
        address = parse_listen(listen)
    except StartupError as wrong:
        raise WrongInput(f"--http {listen}: {wrong}") from wrong
    if not is_loopback(address.host):
        raise WrongInput(
            f"--http {listen}: the port is plain HTTP and asks nobody who calls, so it listens on loopback only, as "
            "127.0.0.1:7410. Let a proxy of the machine make it known."
        )
    return address
