"""The calls that come by the native door, in batches: each goes to the handler that grpcio's server has for it, through
the same interceptors."""

from __future__ import annotations

import asyncio
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import grpc

from timerd.services.background import begin
from timerd.services.transport.front_door import CallOutcome, ServedCalls
from timerd.services.transport.local_calls import Caller, CallFailure, LocalContext, Metadata
from timerd.services.transport.native_answers import Answers
from timerd.services.transport.native_wire import NativeCall, NativeNames, NativeShown, NativeWire
from timerd.services.transport.status import problem_of

# To begin them holds the loop for a millisecond or two; the others are next.
MOST_CALLS = 256
_BINARY = b"-bin"
_CANCELLED: int = grpc.StatusCode.CANCELLED.value[0]


class NativeContext(LocalContext):
    """Of a call that came by this door. Its headers are read if somebody asks for them."""

    def __init__(self, headers: bytes, shown: NativeShown) -> None:
        super().__init__(caller_of(shown))
        self._headers = headers

    def invocation_metadata(self) -> Metadata:
        return tuple(metadata_of(self._headers))


class NativeCalls:
    """Those of one door. `greet` is told of handshakes that wait for it, up to which one."""

    def __init__(self, served: ServedCalls, wire: NativeWire, greet: Callable[[int], None] = lambda _: None) -> None:
        self._calls = served.calls
        self._methods = served.methods
        self._together = [served.together.get(method) for method in served.methods]
        self._wire = wire
        self._greet = greet
        self._answers = Answers(wire)
        self._running: dict[int, asyncio.Task[None]] = {}

    def rung(self) -> None:
        """The bell has rung. It rings again where more has come than is taken."""
        calls, gone, knock = self._wire.take(MOST_CALLS)
        if knock:
            self._greet(knock)
        for call in calls:
            self._begin(call)
        for number in gone:
            if (task := self._running.get(number)) is not None:
                task.cancel()

    async def give_up(self, timeout_s: float) -> None:
        """What is in hand is cancelled, and its callers hear of it."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        self._answers.write()

    def _begin(self, call: NativeCall) -> None:
        number, place, message, headers, peer, names = call
        ask = self._together[place]
        if ask is not None:
            ask(message, partial(self._told, number))
            return
        context = NativeContext(headers, (peer, names))
        work = self._carry_out(number, self._methods[place], message, context)
        self._running[number] = begin(work, "native calls")

    def _told(self, number: int, outcome: CallOutcome | None) -> None:
        if outcome is None:
            self._answers.fail(number, _CANCELLED, "")
        else:
            self._answers.put(number, outcome)

    async def _carry_out(self, number: int, method: str, message: bytes, context: NativeContext) -> None:
        try:
            reply = await self._calls.call(method, message, context)
        except CallFailure as failed:
            code: int = failed.code.value[0]
            self._answers.fail(number, code, failed.message, failed.trailers.items())
        except asyncio.CancelledError:
            # Its caller is gone, or the server goes; who is still there hears of it.
            self._answers.fail(number, _CANCELLED, "")
        except Exception as error:  # noqa: BLE001 - logged with an incident id
            self._answers.put(number, problem_of(error))
        else:
            self._answers.put(number, reply, lambda is_written: context.end(is_written=is_written))
        finally:
            self._running.pop(number, None)


def caller_of(shown: NativeShown) -> Caller:
    peer, names = shown
    return Caller(certificate=_certificate(names) if names is not None else {}, peer=peer)


def _certificate(names: NativeNames) -> Mapping[str, Sequence[bytes]]:
    """Under the names that gRPC has for them."""
    alternative, common = names
    return {"x509_subject_alternative_name": alternative, "x509_common_name": [common]}


def metadata_of(headers: bytes) -> Iterator[tuple[str, str | bytes]]:
    """As grpcio shows it: values of binary headers as bytes. What it refuses the door does not take."""
    for line in headers.splitlines():
        name, _, value = line.partition(b":")
        yield name.decode("ascii"), _unpacked(value) if name.endswith(_BINARY) else value.decode("ascii")


def _unpacked(value: bytes) -> bytes:
    return a2b_base64(value + b"=" * (-len(value) % 4))
