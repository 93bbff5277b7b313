"""What a Work stream is served by: Delivery itself where there is one instance; where there are several, the home of
its worker, which asks Delivery and the other instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from timerd.core.dispatch import Action
from timerd.model.progress import ProgressReport
from timerd.model.pushback import Pushback
from timerd.services.work.work_stream import Flow, WorkStream


class WorkerFrontend(Protocol):
    """One call for each kind of request of a worker."""

    @property
    def server(self) -> str: ...

    @property
    def flow(self) -> Flow: ...

    def join(self, stream: WorkStream, namespace: str, lease_ms: int, name: bytes = b"", called: str = "") -> None: ...

    def credit(self, stream: WorkStream, queue: str, tasks: int) -> None: ...

    def declare_pool(self, stream: WorkStream, name: str, queues: Sequence[str], slots: int) -> None:
        """The queues, which it serves, share so many slots. None is free yet."""
        ...

    def free_slots(self, stream: WorkStream, pool: str, slots: int) -> None:
        """So many more of the pool."""
        ...

    def may_serve(self, stream: WorkStream, queue: str, most: int) -> bool: ...

    def settle(
        self,
        stream: WorkStream,
        sequence: int,
        action: Action,
        tokens: bytes,
        delay_ms: int | None,
        error: str,
        throttle: Pushback | None = None,
    ) -> None: ...

    def extend(self, stream: WorkStream, tokens: bytes) -> list[bytes]:
        """Tokens that are lost, as far as that is known at once."""
        ...

    def report(self, stream: WorkStream, token: bytes, said: ProgressReport) -> None:
        """How far the attempt has come."""
        ...

    def resume(self, stream: WorkStream, tokens: bytes) -> list[bytes]: ...

    def replaced(self, namespace: str, names: Sequence[bytes]) -> list[int]:
        """After `resume`: of what the streams of these names brought, the worker has nothing else. Returns the numbers
        of those that lead here."""
        ...

    def take_back(self, stream: WorkStream, tokens: bytes) -> None:
        """Deliveries that were not written to the stream, which is about to be over."""
        ...

    def closing(self, stream: WorkStream) -> None: ...

    def left(self, stream: WorkStream) -> None: ...
