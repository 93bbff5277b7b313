"""The network between instances, in memory: calls and streams of gRPC as bytes, with delays, losses and cuts.

While two instances are cut off from each other nothing arrives, and nobody is told: a call ends at its deadline, what
was written to a stream arrives when the cut is over, and a cut that lasts is noticed by each side on its own. A process
that has ended is noticed at once, one that is stopped is not.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol, cast

import grpc
import grpc.aio

from tests.simulator.cluster.pausing import PausingLoop, Stoppable
from timerd.model.errors import TimerdError

# How long one side of a stream waits for signs of life from the other.
KEEPALIVES_MS = (1_000, 8_000, 30_000)
Metadata = Sequence[tuple[str, str]]


class Details(NamedTuple):
    """grpc.HandlerCallDetails."""

    method: str
    invocation_metadata: Metadata


class Host(Protocol):
    """An instance, as the network knows it."""

    name: str
    owner: Stoppable
    listens: bool

    def handler(self, details: Details) -> Any: ...

    def took_stream(self, task: asyncio.Task[Any]) -> None: ...


class Refused(TimerdError):
    """What a service ends a call with: no error of its own."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


def broken(code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE, details: str = "") -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details or code.name)


class Net:
    """`hosts` by address; `lost`: how many of the calls get no answer; `hints_lost`: how many hints are dropped."""

    def __init__(self, loop: PausingLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.hosts: dict[str, Host] = {}
        self.delays_ms: Sequence[float] = (0,)
        self.lost = self.hints_lost = 0.0
        self.hits: Counter[str] = Counter()
        # When a delivery was sent, by its ack token.
        self.sent_ms: dict[bytes, float] = {}
        self._cuts: set[frozenset[str]] = set()
        self._streams: dict[Stream, None] = {}

    def clear_up(self) -> None:
        self.lost = self.hints_lost = 0.0
        self.delays_ms = (0,)
        for pair in sorted(map(sorted, self._cuts)):
            self.heal(*pair)

    # -- cuts -----------------------------------------------------------------------------------------------------

    def is_cut(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._cuts

    def cut(self, one: str, other: str) -> None:
        self._cuts.add(frozenset((one, other)))
        for stream in list(self._streams):
            if stream.is_between(one, other):
                stream.silent()

    def heal(self, one: str, other: str) -> None:
        self._cuts.discard(frozenset((one, other)))
        for stream in list(self._streams):
            if stream.is_between(one, other):
                stream.heard_again()

    def ended(self, host: Host) -> None:
        """The process is gone; its machine says so to whoever is connected."""
        for stream in list(self._streams):
            if host in (stream.source, stream.target):
                stream.reset()

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    # -- ways -----------------------------------------------------------------------------------------------------

    def way_ms(self) -> float:
        return self.delays_ms[0] if len(self.delays_ms) == 1 else self.random.choice(self.delays_ms)

    def channel(self, source: Host, address: str) -> Channel:
        return Channel(self, source, address)

    async def ask(self, call: Call, timeout_s: float) -> bytes:
        if self.random.random() < self.hints_lost and call.method.endswith("/Hint"):
            self.hits["hint lost"] += 1
            self.loop.later(self.way_ms(), lambda: call.end(b""))
        elif self.lost and self.random.random() < self.lost:
            self.hits["call lost"] += 1
        else:
            self.loop.later(self.way_ms(), partial(self._arrived, call))
        try:
            async with asyncio.timeout(timeout_s):
                return await call.answer
        except TimeoutError:
            raise broken(grpc.StatusCode.DEADLINE_EXCEEDED) from None

    def _arrived(self, call: Call) -> None:
        host = self.hosts.get(call.address)
        if self.is_cut(call.source.name, name_at(call.address)):
            return
        if host is None or not host.listens:
            self.loop.later(self.way_ms(), partial(call.fail, grpc.StatusCode.UNAVAILABLE))
            return
        handler = host.handler(Details(call.method, call.metadata))
        request = handler.request_deserializer(call.request)
        task = host.owner.spawn(handler.unary_unary(request, cast(Any, Context(call.metadata))))
        task.add_done_callback(partial(self._answered, call, host, handler), context=self.loop.outside)

    def _answered(self, call: Call, host: Host, handler: Any, task: asyncio.Task[Any]) -> None:
        if self.is_cut(call.source.name, host.name) or (self.lost and self.random.random() < self.lost):
            return
        if task.cancelled() or host.owner.dead:
            self.loop.later(self.way_ms(), partial(call.fail, grpc.StatusCode.UNAVAILABLE))
        elif (error := task.exception()) is not None:
            code = error.code if isinstance(error, Refused) else grpc.StatusCode.UNKNOWN
            self.loop.later(self.way_ms(), partial(call.fail, code))
        else:
            self.loop.later(self.way_ms(), partial(call.end, handler.response_serializer(task.result())))

    def open(self, stream: Stream) -> None:
        self._streams[stream] = None
        self.loop.later(self.way_ms(), stream.arrived)
        if self.is_cut(stream.source.name, name_at(stream.address)):
            stream.silent()


def name_at(address: str) -> str:
    return address.partition(":")[0]


class Context:
    """Of a unary call, as the service sees it."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        raise Refused(code, details)


class Call:
    def __init__(self, source: Host, address: str, method: str, request: bytes, metadata: Metadata) -> None:
        self.source = source
        self.address = address
        self.method = method
        self.request = request
        self.metadata = metadata
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def end(self, answer: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, code: grpc.StatusCode) -> None:
        if not self.answer.done():
            self.answer.set_exception(broken(code))


class Channel:
    """In the place of grpc.aio.Channel."""

    def __init__(self, net: Net, source: Host, address: str) -> None:
        self._net = net
        self._source = source
        self._address = address

    def unary_unary(self, method: str, request_serializer: Any, response_deserializer: Any, **_: Any) -> Any:
        async def call(message: Any, timeout: float, metadata: Metadata) -> Any:  # noqa: ASYNC109 - as gRPC has it
            asked = Call(self._source, self._address, method, request_serializer(message), metadata)
            return response_deserializer(await self._net.ask(asked, timeout))

        return call

    def stream_stream(self, method: str, request_serializer: Any, response_deserializer: Any) -> Any:
        def call(metadata: Metadata) -> Stream:
            kinds = (request_serializer, response_deserializer)
            return Stream(self._net, self._source, self._address, method, metadata, kinds)

        return call

    async def close(self, grace: float | None = None) -> None:
        """Calls under way end at their deadlines."""


class Way:
    """One direction of a stream: in order, and none while it is cut."""

    def __init__(self, net: Net, is_cut: Callable[[], bool], heard: Callable[[Any], None]) -> None:
        self._net = net
        self._is_cut = is_cut
        self._heard = heard
        self._under_way: deque[Any] = deque()
        self._held: deque[Any] = deque()
        self._last_ms = 0.0

    def send(self, item: Any) -> None:
        loop = self._net.loop
        self._last_ms = max(self._last_ms, loop.now_ms + self._net.way_ms())
        self._under_way.append(item)
        loop.later(self._last_ms - loop.now_ms, self._arrived)

    def _arrived(self) -> None:
        self._held.append(self._under_way.popleft())
        self.look()

    def look(self) -> None:
        while self._held and not self._is_cut():
            self._heard(self._held.popleft())


class Stream:
    """Both ends of one: the caller's methods are those of grpc.aio's call, the service's those of `Served`."""

    def __init__(
        self, net: Net, source: Host, address: str, method: str, metadata: Metadata, kinds: tuple[Any, Any]
    ) -> None:
        self.source = source
        self.address = address
        self.target: Host | None = None
        self.metadata = metadata
        self._net = net
        self._method = method
        self._to_bytes, self._from_bytes = kinds
        self._task: asyncio.Task[Any] | None = None
        self._out = Way(net, self._is_cut, self._to_service)
        self._back = Way(net, self._is_cut, self._to_caller)
        self._served: asyncio.Queue[Any] = asyncio.Queue()
        self._heard: asyncio.Queue[Any] = asyncio.Queue()
        self._over: Any = None
        # The caller hung up, or one side was reset.
        self._is_down = False
        self._cut_number = 0
        net.open(self)

    def _is_cut(self) -> bool:
        return self._net.is_cut(self.source.name, name_at(self.address))

    def is_between(self, one: str, other: str) -> bool:
        return {self.source.name, name_at(self.address)} == {one, other}

    # -- the caller -----------------------------------------------------------------------------------------------

    async def write(self, message: Any) -> None:
        """What is written after the end is lost, as it may be before it; who reads hears of the end."""
        if self._over is None:
            self._out.send(self._to_bytes(message))

    async def read(self) -> Any:
        if self._over is not None and self._heard.empty():
            item = self._over
        else:
            item = await self._heard.get()
        if isinstance(item, grpc.aio.AioRpcError):
            raise item
        return item if item is grpc.aio.EOF else self._from_bytes(item)

    def cancel(self) -> None:
        """The service hears of it, unless they are cut off from each other."""
        if not self._is_down:
            self._is_down = True
            self._net.loop.later(self._net.way_ms(), self._hung_up)

    def _hung_up(self) -> None:
        if not self._is_cut():
            self._end_service()

    # -- the service ----------------------------------------------------------------------------------------------

    def arrived(self) -> None:
        # Where it was under way before a cut was over, it is sent for once more then.
        if self._is_cut() or self._is_down or self._task is not None:
            return
        host = self._net.hosts.get(self.address)
        if host is None or not host.listens:
            self._fail()
            return
        self.target = host
        handler = host.handler(Details(self._method, self.metadata))
        served = Served(self, handler)
        self._task = host.owner.spawn(handler.stream_stream(cast(Any, None), served))
        host.took_stream(self._task)
        self._task.add_done_callback(self._ended, context=self._net.loop.outside)
        self._out.look()

    def _to_service(self, item: bytes) -> None:
        self._served.put_nowait(item)

    def _to_caller(self, item: Any) -> None:
        if self._over is None:
            if item is grpc.aio.EOF or isinstance(item, grpc.aio.AioRpcError):
                self._over = item
                self._net.forget(self)
            self._heard.put_nowait(item)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            code = error.code if isinstance(error, Refused) else grpc.StatusCode.UNAVAILABLE
            self._back.send(broken(code))
        else:
            self._back.send(grpc.aio.EOF)

    async def next_request(self) -> bytes:
        return cast(bytes, await self._served.get())

    def answer(self, item: bytes) -> None:
        self._back.send(item)

    def delivers(self, said: Any) -> None:
        self._net.hits["relayed delivery"] += said.tasks

    # -- what becomes of it ---------------------------------------------------------------------------------------

    def reset(self) -> None:
        """One of the two processes has ended."""
        self._is_down = True
        self._net.loop.later(self._net.way_ms(), self._reset)

    def _reset(self) -> None:
        if not self._is_cut():
            self._fail()
            self._end_service()

    def silent(self) -> None:
        """Each side gives up on its own if the cut lasts."""
        self._cut_number += 1
        for give_up in (self._fail, self._end_service):
            after_ms = self._net.random.choice(KEEPALIVES_MS)
            self._net.loop.later(after_ms, partial(self._given_up, self._cut_number, give_up))

    def _given_up(self, number: int, give_up: Callable[[], None]) -> None:
        if number == self._cut_number and self._is_cut():
            self._net.hits["stream given up"] += 1
            self._is_down = True
            give_up()

    def heard_again(self) -> None:
        if self._is_down:
            self._fail()
            self._end_service()
        elif self._task is None:
            self._net.loop.later(self._net.way_ms(), self.arrived)
        self._out.look()
        self._back.look()

    def _fail(self) -> None:
        self._to_caller(broken())

    def _end_service(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Served:
    """A stream as its service sees it: grpc.aio.ServicerContext."""

    def __init__(self, stream: Stream, handler: Any) -> None:
        self._stream = stream
        self._from_bytes = handler.request_deserializer
        self._to_bytes = handler.response_serializer

    def invocation_metadata(self) -> Metadata:
        return self._stream.metadata

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        raise Refused(code, details)

    async def read(self) -> Any:
        return self._from_bytes(await self._stream.next_request())

    async def write(self, message: Any) -> None:
        if message.WhichOneof("response") == "deliver":
            self._stream.delivers(message.deliver)
        self._stream.answer(self._to_bytes(message))
