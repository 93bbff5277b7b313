"""The side of the relay that has the workers: one stream to each other instance, opened again when it breaks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol, TypeAlias

import grpc
import grpc.aio

from timerd.model.progress import ProgressReport
from timerd.peer.v1 import relay_pb2 as pb
from timerd.services.background import begin, begin_writer, note
from timerd.services.calls.throttles import throttle_message
from timerd.services.work.said import Said
from timerd.v1 import work_service_pb2 as work_pb

METHOD = "/timerd.peer.v1.RelayService/Relay"
AGAIN_S = (0.05, 1.0)
# So much is collected before it is said.
WRITTEN_BYTES = 32 << 10
log = logging.getLogger(__name__)
RelayCall: TypeAlias = "grpc.aio.StreamStreamCall[pb.RelayRequest, pb.RelayResponse]"
OnResponse = Callable[[pb.RelayResponse | None], None]


class Neighbours(Protocol):
    """What is asked of the membership."""

    @property
    def name(self) -> str: ...

    def live(self) -> tuple[str, ...]: ...

    def present(self) -> tuple[str, ...]: ...

    def address_of(self, name: str) -> str: ...

    def on_change(self, changed: Callable[[], None]) -> None: ...


class Listener(Protocol):
    """The home."""

    def up(self, link: Link) -> None: ...

    def heard(self, link: Link, response: pb.RelayResponse) -> None: ...

    def down(self, link: Link) -> None: ...


class Link:
    """One stream. What is asked on it has one answer: the peer's, or None when it breaks before."""

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self._opened: set[int] = set()
        self._asked: dict[int, OnResponse] = {}
        self._sequence = count(1)
        self._written: dict[int, int] = {}
        self._waiting: deque[pb.RelayRequest] = deque()
        self._changed = asyncio.Event()

    def knows(self, worker: int) -> bool:
        return worker in self._opened

    def open(self, worker: int, namespace: str, lease_ms: int, name: bytes = b"", called: str = "") -> None:
        """Before anything else about the worker."""
        if worker not in self._opened:
            self._opened.add(worker)
            opened = pb.WorkerOpened(
                worker=worker, namespace=namespace, lease_ms=lease_ms, stream=name, worker_name=called
            )
            self.send(pb.RelayRequest(opened=opened))

    def left(self, worker: int) -> None:
        if worker in self._opened:
            self._opened.remove(worker)
            self._written.pop(worker, None)
            self.send(pb.RelayRequest(left=pb.WorkerLeft(worker=worker)))

    def settle(self, worker: int, namespace: str, tokens: bytes, said: Said, answered: OnResponse) -> None:
        """`namespace`: for the peer may not know the worker any more."""
        settle = pb.RelaySettle(
            worker=worker,
            namespace=namespace,
            action=work_pb.SettleAction.Name(said.action),
            ack_tokens=tokens,
            delay_ms=said.delay_ms,
            error=said.error,
            throttle=throttle_message(said.throttle),
        )
        settle.sequence = self._expect(answered)
        self.send(pb.RelayRequest(settle=settle))

    def extend(self, worker: int, tokens: bytes, answered: OnResponse) -> None:
        said = pb.RelayExtend(worker=worker, sequence=self._expect(answered), ack_tokens=tokens)
        self.send(pb.RelayRequest(extend=said))

    def report(self, worker: int, token: bytes, said: ProgressReport) -> None:
        report = pb.RelayReport(worker=worker, ack_token=token, progress=said.text, age_ms=said.age_ms)
        self.send(pb.RelayRequest(report=report))

    def resume(self, worker: int, tokens: bytes, answered: OnResponse, *, holds_unknown: bool) -> None:
        said = pb.RelayResume(worker=worker, ack_tokens=tokens, holds_unknown=holds_unknown)
        said.sequence = self._expect(answered)
        self.send(pb.RelayRequest(resume=said))

    def written(self, worker: int, size_bytes: int) -> None:
        """So much of what came for the worker has left."""
        written = self._written.get(worker, 0) + size_bytes
        if written >= WRITTEN_BYTES and worker in self._opened:
            self.send(pb.RelayRequest(written=pb.BytesWritten(worker=worker, size_bytes=written)))
            written = 0
        self._written[worker] = written

    def send(self, request: pb.RelayRequest) -> None:
        self._waiting.append(request)
        self._changed.set()

    def answered(self, sequence: int, response: pb.RelayResponse) -> None:
        answered = self._asked.pop(sequence, None)
        if answered is not None:
            answered(response)

    def broken(self) -> None:
        """What was asked has no answer."""
        asked, self._asked = self._asked, {}
        for answered in asked.values():
            answered(None)

    async def write_all(self, call: RelayCall) -> None:
        while True:
            while self._waiting:
                await call.write(self._waiting.popleft())
            self._changed.clear()
            await self._changed.wait()

    def _expect(self, answered: OnResponse) -> int:
        sequence = next(self._sequence)
        self._asked[sequence] = answered
        return sequence


def is_cancelled() -> bool:
    """The task that asks, and not only a call that it waits for: gRPC ends those on a channel that is closed alike."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class KeptLink(NamedTuple):
    """A link that is opened again whenever it breaks, and the address that it was begun with."""

    address: str
    task: asyncio.Task[None]


class Links:
    """To all other instances that live. `channel_of` an address; `metadata` shows that one is of the cluster."""

    def __init__(
        self,
        home: Listener,
        membership: Neighbours,
        channel_of: Callable[[str], grpc.aio.Channel],
        metadata: Sequence[tuple[str, str]],
    ) -> None:
        self._home = home
        self._membership = membership
        self._channel_of = channel_of
        self._metadata = tuple(metadata)
        self._kept: dict[str, KeptLink] = {}
        self._number = count(1)
        self._closed = False
        membership.on_change(self.look)

    def look(self) -> None:
        """A new instance gets a link. One that is gone loses it; one that is only leaving keeps it for what is in
        hand."""
        if self._closed:
            return
        live = set(self._membership.live()) - {self._membership.name}
        for name in sorted(live):
            address = self._membership.address_of(name)
            if name in self._kept and self._kept[name].address != address:
                # It has come back somewhere else. What waits for an answer from where it was may wait for ever.
                self._kept.pop(name).task.cancel()
            if name not in self._kept:
                self._kept[name] = KeptLink(address, begin(self._keep(name), "links"))
        for name in self._kept.keys() - live - set(self._membership.present()):
            self._kept.pop(name).task.cancel()

    async def close(self) -> None:
        self._closed = True
        kept, self._kept = [each.task for each in self._kept.values()], {}
        for task in kept:
            task.cancel()
        await asyncio.gather(*kept, return_exceptions=True)

    async def _keep(self, name: str) -> None:
        pause_s = AGAIN_S[0]
        while True:
            link = Link(next(self._number), name)
            try:
                await self._run(link, name)
                pause_s = AGAIN_S[0]
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                log.info("no relay to %s: %s", name, error.details() if isinstance(error, grpc.RpcError) else error)
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                log.info("no relay to %s: it has left the address where it was called", name)
            except Exception as error:  # noqa: BLE001 - it is noted
                note("links", error, f"the relay to {name} begins anew")
            if name not in self._membership.live():
                # It was leaving.
                self._kept.pop(name, None)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S[1])

    async def _run(self, link: Link, name: str) -> None:
        """Until it breaks. It counts as up when the peer has answered at all."""
        method: Any = self._channel_of(self._membership.address_of(name)).stream_stream(
            METHOD, pb.RelayRequest.SerializeToString, pb.RelayResponse.FromString
        )
        call: RelayCall = method(metadata=self._metadata)
        try:
            await call.write(pb.RelayRequest(open=pb.RelayOpen(home=self._membership.name)))
            response = await call.read()
            if response is grpc.aio.EOF:
                return
            await self._converse(link, call)
        finally:
            call.cancel()

    async def _converse(self, link: Link, call: RelayCall) -> None:
        writer = begin_writer(link.write_all(call), "links", call.cancel)
        self._home.up(link)
        try:
            while isinstance(response := await call.read(), pb.RelayResponse):
                self._home.heard(link, response)
        finally:
            self._home.down(link)
            writer.cancel()
            # Where the connection is gone, its last write failed: that is known already.
            await asyncio.gather(writer, return_exceptions=True)
