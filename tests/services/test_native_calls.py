"""The event loop's side of the native door, without Rust: batches come from a wire that the test holds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.certificates import Authority, Pair
from timerd.config import ServerConfig, TlsConfig
from timerd.model.errors import Overloaded, StartupError
from timerd.services.transport.door_choice import make_door
from timerd.services.transport.front_door import CallOutcome, ServedCalls
from timerd.services.transport.grpcio_door import GrpcioDoor
from timerd.services.transport.listen import Address
from timerd.services.transport.local_calls import LocalCalls, LocalContext
from timerd.services.transport.native_answers import Answers
from timerd.services.transport.native_calls import NativeCalls, NativeContext, metadata_of
from timerd.services.transport.native_door import NativeDoor, caller_at
from timerd.services.transport.native_tls import Greeting
from timerd.services.transport.native_wire import (
    WIRE_VERSION,
    NativeCall,
    NativeFailure,
    NativePem,
    NativeReply,
    NativeShown,
    load_native,
)
from timerd.services.transport.passed_on import CONNECTION, PassedContext, PassedOn
from timerd.services.transport.status import problem_of
from timerd.services.transport.tls import TlsFiles, read_tls
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as wire

GET, SCHEDULE = "/timerd.v1.TimerService/Get", "/timerd.v1.TimerService/Schedule"
REPLY = wire.GetResponse()
SHOWN: NativeShown = ("ipv4:127.0.0.1:9", ([b"orders.example", b"::1"], b"orders"))
CERTIFICATE = {"x509_subject_alternative_name": [b"orders.example", b"::1"], "x509_common_name": [b"orders"]}
OVERLOADED = Overloaded("Zu viel: 100 % voll, später.", "FULL", retry_after_ms=1_250)
Handle = Callable[[Any, Any], Any]


class HeldWire:
    """`coming` is what Rust would have; `gone` are numbers that nobody waits for."""

    def __init__(self) -> None:
        self.coming: list[NativeCall] = []
        self.gone: list[int] = []
        self.replies: list[NativeReply] = []
        self.failures: list[NativeFailure] = []
        self.batches = 0
        self.knock = 0
        self.greeted = 0
        self.renewed: list[NativePem] = []
        self.unusable = ""

    def listen(self, host: str, port: int) -> int:
        raise OSError(f"{host}:{port}")

    def bell(self) -> int:
        return -1

    def take(self, most: int) -> tuple[list[NativeCall], list[int], int]:
        taken, self.coming = self.coming[:most], self.coming[most:]
        return taken, list(self.gone), self.knock

    def greet(self, through: int) -> None:
        self.greeted = through

    def renew(self, pem: NativePem) -> None:
        if self.unusable:
            raise ValueError(self.unusable)
        self.renewed.append(pem)

    def shown(self, connection: int) -> NativeShown | None:
        return SHOWN if connection == 7 else None

    def answer(self, replies: Sequence[NativeReply], failures: Sequence[NativeFailure]) -> list[int]:
        self.batches += 1
        self.replies += replies
        self.failures += failures
        return [number for number in self.gone if number in {reply[0] for reply in replies}]

    def drain(self) -> None: ...

    def close(self, wait_ms: int) -> None: ...

    def figures(self) -> Mapping[str, int]:
        return {"in_hand": 0}


def served(handle: Handle, together: Mapping[str, Any] | None = None, **settings: Any) -> ServedCalls:  # noqa: ANN401
    handler: Any = grpc.unary_unary_rpc_method_handler(handle, bytes, lambda reply: reply.SerializeToString())
    handlers = grpc.method_handlers_generic_handler("timerd.v1.TimerService", {"Get": handler})
    calls = LocalCalls((), (handlers,))
    calls.open()
    return ServedCalls(ServerConfig(**settings), grpc.aio.server(), PassedOn(), calls, [GET, SCHEDULE], together or {})


def made(handle: Handle, together: Mapping[str, Any] | None = None) -> tuple[NativeCalls, HeldWire]:
    held = HeldWire()
    return NativeCalls(served(handle, together), held), held


def call(number: int, message: bytes = b"", place: int = 0, headers: bytes = b"") -> NativeCall:
    return number, place, message, headers, *SHOWN


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_all_that_is_answered_in_a_turn_is_written_together() -> None:
    async def echo(request: bytes, _: object) -> wire.GetResponse:
        return wire.GetResponse(task=task_pb2.Task(key=request.decode()))

    calls, held = made(echo)
    held.coming = [call(number, b"k%d" % number) for number in range(5)]
    calls.rung()
    await turns()
    assert [(number, wire.GetResponse.FromString(raw).task.key) for number, raw in held.replies] == [
        (number, f"k{number}") for number in range(5)
    ]
    assert held.batches == 1


async def test_a_refusal_has_the_status_the_words_and_the_details_of_grpc() -> None:
    async def refuse(_: object, context: LocalContext) -> None:
        problem = problem_of(OVERLOADED)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, problem.message, (("x-bin", b"\xff\x00"), ("y", "z")))

    calls, held = made(refuse)
    held.coming = [call(3)]
    calls.rung()
    await turns()
    (failure,) = held.failures
    assert failure == (3, 8, b"Zu viel: 100 %25 voll, sp%C3%A4ter.", [("x-bin", b"/wA"), ("y", b"z")])


async def test_a_problem_is_the_same_refusal() -> None:
    held = HeldWire()
    Answers(held).put(4, problem_of(OVERLOADED))
    await turns()
    (failure,) = held.failures
    found = dict(failure.trailers)
    assert (failure.number, failure.code) == (4, 8)
    assert (found["timerd-reason"], found["timerd-retry-after-ms"]) == (b"FULL", b"1250")
    assert b"=" not in found["grpc-status-details-bin"]


async def test_what_no_code_expects_is_an_incident() -> None:
    async def break_down(_: object, __: object) -> None:
        raise ZeroDivisionError

    calls, held = made(break_down)
    held.coming = [call(1)]
    calls.rung()
    await turns()
    (failure,) = held.failures
    assert failure.code == 13
    assert b"incident" in failure.message


async def test_who_went_is_not_waited_for() -> None:
    ended: list[str] = []

    async def wait(_: object, __: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    calls, held = made(wait)
    held.coming = [call(1)]
    calls.rung()
    await turns()
    assert ended == []
    held.gone = [1]
    calls.rung()
    await turns()
    assert ended == ["cancelled"]


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_reply_that_reaches_nobody_is_lost(*, is_there: bool) -> None:
    lost: list[str] = []

    async def hand_out(_: object, context: LocalContext) -> wire.GetResponse:
        context.on_lost(lambda: lost.append("lost"))
        return REPLY

    calls, held = made(hand_out)
    held.coming = [call(1)]
    calls.rung()
    held.gone = [] if is_there else [1]
    await turns()
    assert [number for number, _ in held.replies] == [1]
    assert lost == ([] if is_there else ["lost"])


async def test_methods_of_many_are_asked_without_a_task() -> None:
    asked: list[tuple[bytes, Callable[[CallOutcome | None], None]]] = []
    calls, held = made(lambda *_: None, {SCHEDULE: lambda raw, told: asked.append((raw, told))})
    held.coming = [call(1, b"a", 1), call(2, b"b", 1)]
    before = len(asyncio.all_tasks())
    calls.rung()
    assert [raw for raw, _ in asked] == [b"a", b"b"]
    assert len(asyncio.all_tasks()) == before
    asked[1][1](wire.ScheduleResponse(task_id="id"))
    asked[0][1](None)
    await turns()
    assert [number for number, _ in held.replies] == [2]
    assert [(each.number, each.code) for each in held.failures] == [(1, 1)]


async def test_what_is_given_up_is_cancelled_and_said() -> None:
    async def wait(_: object, __: object) -> None:
        await asyncio.Event().wait()

    calls, held = made(wait)
    held.coming = [call(1), call(2)]
    calls.rung()
    await turns()
    await calls.give_up(5.0)
    assert [(each.number, each.code) for each in held.failures] == [(1, 1), (2, 1)]


def test_headers_are_shown_as_grpcio_shows_them() -> None:
    headers = b"user-agent:grpc-go/1.76.0\nx-one:a: b\nx-two-bin:AAEC\nx-two-bin:/w\nx-two-bin:\n"
    assert list(metadata_of(headers)) == [
        ("user-agent", "grpc-go/1.76.0"),
        ("x-one", "a: b"),
        ("x-two-bin", b"\x00\x01\x02"),
        ("x-two-bin", b"\xff"),
        ("x-two-bin", b""),
    ]
    context = NativeContext(headers, ("ipv4:127.0.0.1:9", None))
    assert dict(context.invocation_metadata())["x-one"] == "a: b"
    assert (context.peer(), context.auth_context()) == ("ipv4:127.0.0.1:9", {})


async def test_handlers_see_what_the_caller_has_shown() -> None:
    seen: list[Any] = []

    async def look(_: object, context: LocalContext) -> wire.GetResponse:
        seen.append((context.peer(), context.auth_context()))
        return REPLY

    calls, held = made(look)
    held.coming = [call(1)]
    calls.rung()
    await turns()
    assert seen == [("ipv4:127.0.0.1:9", CERTIFICATE)]


class GrpcContext:
    """Of a call that grpcio got from the door."""

    def __init__(self, *metadata: tuple[str, str]) -> None:
        self.metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata

    def peer(self) -> str:
        return "unix:"

    def auth_context(self) -> Mapping[str, Sequence[bytes]]:
        return {"x509_common_name": [b"nobody"]}

    def code(self) -> int:
        return 5


@pytest.mark.parametrize(
    ("headers", "peer", "certificate"),
    [
        ([(CONNECTION, "7")], "ipv4:127.0.0.1:9", CERTIFICATE),
        ([(CONNECTION, "8")], "", {}),
        ([(CONNECTION, "7x")], "", {}),
        ([], "", {}),
    ],
    ids=["open", "gone", "no number", "not by the door"],
)
async def test_a_call_that_was_passed_on_is_that_of_who_made_it(
    headers: list[tuple[str, str]], peer: str, certificate: object
) -> None:
    passed_on, found = PassedOn(), list[Any]()

    async def look(_: object, context: object) -> None:
        found.append(context)

    handler: Any = grpc.unary_unary_rpc_method_handler(look)

    async def continuation(_: object) -> Any:  # noqa: ANN401
        return handler

    details: Any = None
    assert await passed_on.intercept_service(continuation, details) is handler, "without a door before it"
    passed_on.know(partial(caller_at, HeldWire()))
    around: Any = await passed_on.intercept_service(continuation, details)
    await around.unary_unary(b"", GrpcContext(("x-one", "a"), *headers))
    (context,) = found
    assert isinstance(context, PassedContext)
    assert (context.peer(), context.auth_context()) == (peer, certificate)
    assert context.invocation_metadata() == (("x-one", "a"),)
    assert context.code() == 5, "all else is gRPC's"


# --- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Authority(tmp_path).sign("server", "DNS:localhost")


def tls_of(pair: Pair) -> TlsConfig:
    return TlsConfig(certificate_file=pair.certificate, key_file=pair.key)


async def test_a_handshake_goes_on_when_the_files_have_been_looked_at(pair: Pair, tmp_path: Path) -> None:
    held = HeldWire()
    calls = NativeCalls(served(lambda *_: None), held, Greeting(held, TlsFiles(tls_of(pair))).greet)
    calls.rung()
    assert held.greeted == 0
    held.knock = 3
    calls.rung()
    assert (held.greeted, held.renewed) == (3, [])
    other = Authority(tmp_path, "other").sign("later", "DNS:localhost")
    for old, new in zip(pair, other, strict=True):
        os.replace(new, old)
    held.knock = 4
    calls.rung()
    assert (held.greeted, held.renewed) == (4, [read_tls(tls_of(pair))])


async def test_files_that_the_door_cannot_use_hold_no_handshake(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = HeldWire()
    greeting = Greeting(held, TlsFiles(tls_of(pair)))
    held.unusable = "no such curve"
    for old, new in zip(pair, Authority(tmp_path, "other").sign("later", "DNS:localhost"), strict=True):
        os.replace(new, old)
    greeting.greet(2)
    assert held.greeted == 2
    assert "cannot use the new TLS files; the old ones stay in force. no such curve" in caplog.text


def test_both_sides_count_the_same_forms() -> None:
    source = Path(__file__, "../../../native/src/lib.rs").resolve().read_text(encoding="utf-8")
    assert f"WIRE_VERSION: u32 = {WIRE_VERSION};" in source


# --- which door serves ---------------------------------------------------------------------------------------------


class Package:
    """As `timerd_native`."""

    def __init__(self, version: int = WIRE_VERSION, unusable: str = "") -> None:
        self._version = version
        self._unusable = unusable
        self.given: dict[str, Any] = {}

    def Door(self, *_: object, **given: Any) -> HeldWire:  # noqa: ANN401
        self.given = given
        return HeldWire()

    def wire_version(self) -> int:
        return self._version

    def check_tls(self, _: NativePem) -> None:
        if self._unusable:
            raise ValueError(self._unusable)


UNUSABLE = Package(unusable="no such curve")


def chosen(package: Any, **settings: Any) -> object:  # noqa: ANN401
    return make_door(served(lambda *_: None, **settings), lambda: package)


async def test_auto_takes_the_native_door_where_it_can_serve(pair: Pair) -> None:
    assert isinstance(chosen(Package()), NativeDoor)
    assert isinstance(chosen(None), GrpcioDoor)
    assert isinstance(chosen(Package(WIRE_VERSION + 1)), GrpcioDoor)
    assert isinstance(chosen(Package(), tls=tls_of(pair)), NativeDoor)
    assert isinstance(chosen(UNUSABLE, tls=tls_of(pair)), GrpcioDoor)
    assert isinstance(chosen(UNUSABLE), NativeDoor)
    assert isinstance(chosen(Package(), front_door="grpcio"), GrpcioDoor)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        (None, "install timerd-native, or set front_door to auto or grpcio"),
        (Package(WIRE_VERSION + 1), "install the timerd-native that belongs to this timerd"),
        (UNUSABLE, r"give it TLS files that it can use \(no such curve\)"),
    ],
)
async def test_native_is_refused_in_words_where_it_cannot(package: Any, words: str, pair: Pair) -> None:  # noqa: ANN401
    with pytest.raises(StartupError, match=words):
        chosen(package, front_door="native", tls=tls_of(pair))


@pytest.mark.parametrize("door", ["auto", "native"])
async def test_a_server_that_was_told_to_speak_tls_never_listens_without(pair: Pair, door: str) -> None:
    package = Package()
    front = chosen(package, front_door=door, tls=tls_of(pair))
    assert isinstance(front, NativeDoor)
    with pytest.raises(StartupError, match="Cannot listen"):
        await front.open(Address("127.0.0.1", 1))
    assert package.given["tls"] == read_tls(tls_of(pair))


@pytest.mark.parametrize(
    ("package", "listen", "is_said"),
    [
        (None, "127.0.0.1:7400", False),
        (None, "localhost:7400", False),
        (None, "[::1]:7400", False),
        (None, "0.0.0.0:7400", True),
        (Package(WIRE_VERSION + 1), "127.0.0.1:7400", True),
    ],
)
async def test_the_log_says_why_grpcio_serves_but_no_laptop_is_told_at_each_start(
    caplog: pytest.LogCaptureFixture,
    package: Any,  # noqa: ANN401
    listen: str,
    is_said: bool,
) -> None:
    caplog.set_level("INFO")
    chosen(package, listen=listen)
    words = "The front door is grpcio: for the native one, install "
    assert [record.getMessage().startswith(words) for record in caplog.records] == [True] * is_said


def test_a_package_that_cannot_be_loaded_is_as_none_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(name: str) -> object:
        raise ImportError(f"{name}: libc is too old")

    monkeypatch.setattr("importlib.import_module", broken)
    assert load_native() is None
    (record,) = caplog.records
    assert "cannot be loaded: timerd_native: libc is too old" in record.getMessage()
