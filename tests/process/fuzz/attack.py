"""Calls of every kind: unary verbs, Session and Work streams; some cut in the middle, some with the wrong number of
messages, some to methods that are not there."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message_factory import GetMessageClass

from tests.process.fuzz.findings import Findings, Message
from tests.process.fuzz.reading import Reader, parsed
from tests.process.fuzz.values import Generator, Learned
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1 import work_service_pb2 as work_pb

TIMER = pb.DESCRIPTOR.services_by_name["TimerService"]
WORK = work_pb.DESCRIPTOR.services_by_name["WorkService"]
UNARY = {m.name: m for m in TIMER.methods if not m.server_streaming}
WATCH = TIMER.methods_by_name["Watch"]
OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
# What gRPC's client says, over the server's own answer, where a write came after the end.
WRITE_FAILED = "Internal error from Core"
# A call that takes so long hangs: a fault.
PATIENCE_S = 60.0
# A Wait may take its minute, which a short run has not: what is allowed is shortened to this.
LONGEST_WAIT_S, ALLOWED_WAIT_S = 1, 60
# Of the unary calls, those whose caller hangs up; and those with a message of many megabytes.
CUT_SHARE, HUGE_SHARE = 0.03, 0.0005
HUGE_BYTES = (17 << 20, 33 << 20)


def path_of(verb: str) -> str:
    service = WORK if verb == "Work" else TIMER
    return f"/{service.full_name}/{verb}"


WaitCall = pb.WaitRequest | pb.CallRequest
WAITS: dict[str, type[WaitCall]] = {"Wait": pb.WaitRequest, "Call": pb.CallRequest}


def shortened(kind: type[WaitCall], raw: bytes) -> bytes:
    """`raw` may be no message at all."""
    request = parsed(kind, raw)
    if request is None or not LONGEST_WAIT_S < request.timeout.seconds <= ALLOWED_WAIT_S:
        return raw
    request.timeout.seconds = LONGEST_WAIT_S
    return bytes(request.SerializeToString())


class Attacker:
    """One connection, one call at a time."""

    def __init__(self, address: str, random: Random, learned: Learned, findings: Findings) -> None:
        self.channel: Any = grpc.aio.insecure_channel(address, options=OPTIONS)
        self._random = random
        self._findings = findings
        self._make = Generator(random, learned)
        self._reader = Reader(findings, learned)

    async def run(self, until_s: float) -> None:
        """Calls until then, by the loop's clock."""
        loop = asyncio.get_running_loop()
        while loop.time() < until_s:
            kind = self._random.random()
            if kind < 0.75:
                await self._unary()
            elif kind < 0.87:
                await self.session([self._make.raw(pb.SessionRequest.DESCRIPTOR) for _ in range(self._count())])
            elif kind < 0.98:
                await self.work([self._opening(), *self._work_requests()])
            else:
                await self._wrong_shape()
        await self.channel.close()

    def _count(self) -> int:
        return self._random.choice((0, 1, 2, 5, 20))

    # -- unary ----------------------------------------------------------------------------------------------------

    async def _unary(self) -> None:
        random = self._random
        verb = random.choice((*UNARY, WATCH.name, "Schedule", "ScheduleBatch", "ScheduleBatch"))
        if verb == WATCH.name:
            await self.watch(self._make.raw(WATCH.input_type))
            return
        raw = self._make.raw(UNARY[verb].input_type)
        if verb in WAITS:
            raw = shortened(WAITS[verb], raw)
        if random.random() < HUGE_SHARE:
            verb, raw = "Schedule", pb.ScheduleRequest(payload=bytes(random.choice(HUGE_BYTES))).SerializeToString()
        await self.unary(verb, raw, hang_up=random.random() < CUT_SHARE)

    async def unary(self, verb: str, raw: bytes, *, hang_up: bool = False) -> None:
        sent = Message(path_of(verb), raw)
        call: Any = self.channel.unary_unary(sent.method)(raw, timeout=PATIENCE_S)
        if hang_up:
            await asyncio.sleep(self._random.random() * 0.003)
            call.cancel()
            self._findings.answers[verb, "(hung up)"] += 1
            return
        try:
            reply = GetMessageClass(UNARY[verb].output_type).FromString(await call)
        except grpc.aio.AioRpcError as error:
            self._findings.answered(verb, error.code().value[0], error.details() or "", sent)
            return
        self._findings.answered(verb, 0, "", sent)
        self._reader.unary(verb, raw, reply, sent)

    # -- streams --------------------------------------------------------------------------------------------------

    async def watch(self, raw: bytes) -> None:
        """What is told first, which comes at once."""
        sent = Message(path_of(WATCH.name), raw)
        call: Any = self.channel.unary_stream(sent.method)(raw, timeout=PATIENCE_S)
        try:
            await call.read()
        except grpc.aio.AioRpcError as error:
            self._findings.answered(WATCH.name, error.code().value[0], error.details() or "", sent)
            return
        call.cancel()
        self._findings.answered(WATCH.name, 0, "", sent)

    async def session(self, requests: list[bytes]) -> None:
        """Each readable message has one answer, under its own sequence, which is set here."""
        call: Any = self.channel.stream_stream(path_of("Session"))(timeout=PATIENCE_S)
        asked: dict[int, bytes] = {}
        for number, raw in enumerate(requests, 1):
            request = parsed(pb.SessionRequest, raw)
            if request is not None:
                request.sequence = number
                requests[number - 1] = asked[number] = request.SerializeToString()
        sent = [Message(path_of("Session"), raw) for raw in requests]
        await self._converse(call, sent, lambda raw: self._session_reply(asked, raw))

    def _session_reply(self, asked: dict[int, bytes], raw: bytes) -> None:
        reply = pb.SessionResponse.FromString(raw)
        if reply.WhichOneof("response") == "window":
            return
        request_raw = asked.get(reply.sequence)
        sent = (Message(path_of("Session"), request_raw),) if request_raw is not None else ()
        self._reader.session(pb.SessionRequest.FromString(request_raw) if request_raw else None, reply, *sent)

    def _opening(self) -> bytes:
        if self._random.random() < 0.1:
            return self._make.raw(work_pb.WorkRequest.DESCRIPTOR)
        opening: Any = self._make.message(work_pb.Open.DESCRIPTOR)
        return work_pb.WorkRequest(open=opening).SerializeToString()

    def _work_requests(self) -> list[bytes]:
        """Mostly what may follow an opening."""
        return [self._work_request() for _ in range(self._count())]

    def _work_request(self) -> bytes:
        kind = self._random.choice(("credit", "settle", "settle", "extend", ""))
        if not kind:
            return self._make.raw(work_pb.WorkRequest.DESCRIPTOR)
        field = work_pb.WorkRequest.DESCRIPTOR.fields_by_name[kind]
        message: Any = self._make.message(field.message_type, self._random.choice((0.0, 0.0, 0.1)))
        return work_pb.WorkRequest(**{kind: message}).SerializeToString()

    async def work(self, requests: list[bytes]) -> None:
        call: Any = self.channel.stream_stream(path_of("Work"))(timeout=PATIENCE_S)
        sent = [Message(path_of("Work"), raw) for raw in requests]
        await self._converse(
            call, sent, lambda raw: self._reader.work(work_pb.WorkResponse.FromString(raw), *sent), linger=True
        )

    async def _converse(self, call: Any, sent: list[Message], heard: Any, *, linger: bool = False) -> None:  # noqa: ANN401
        """Writes, reads what comes, and ends well or in the middle."""
        verb = sent[0].method.rpartition("/")[2] if sent else "Session"
        reading = asyncio.create_task(self._read(call, heard))
        try:
            for message in sent:
                await call.write(message.raw)
                await asyncio.sleep(0)
            if linger:
                await asyncio.sleep(self._random.choice((0.0, 0.005, 0.05)))
            if self._random.random() < 0.3:
                call.cancel()
            else:
                await call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The answer, which is read below, came first.
            call.cancel()
        await reading
        code, details = await call.code(), await call.details() or ""
        if code is grpc.StatusCode.CANCELLED:
            self._findings.answers[verb, "(hung up)"] += 1
        elif details == WRITE_FAILED:
            self._findings.answers[verb, "(refused while writing)"] += 1
        else:
            self._findings.answered(verb, code.value[0], details, *sent)

    async def _read(self, call: Any, heard: Any) -> None:  # noqa: ANN401
        try:
            while (raw := await call.read()) is not grpc.aio.EOF:
                heard(raw)
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            return

    # -- what is no call of ours ----------------------------------------------------------------------------------

    async def _wrong_shape(self) -> None:
        """A method that is not there, or several messages where one belongs."""
        if self._random.random() < 0.5:
            method = self._random.choice(("/timerd.v1.TimerService/Nothing", "/x/y", "/timerd.v1.WorkService/Schedule"))
            await self._expect(
                self.channel.unary_unary(method)(b"\x0a", timeout=PATIENCE_S), grpc.StatusCode.UNIMPLEMENTED
            )
            return
        verb = self._random.choice(list(UNARY))
        call: Any = self.channel.stream_stream(path_of(verb))(timeout=PATIENCE_S)
        raws = [self._make.raw(UNARY[verb].input_type) for _ in range(2)]
        sent = [Message(path_of(verb), raw) for raw in raws]
        await self._converse(call, sent, lambda _: None)

    async def _expect(self, call: Any, wanted: grpc.StatusCode) -> None:  # noqa: ANN401
        code = await call.code()
        self._findings.answers["(no method)", code.name] += 1
        if code is not wanted:
            self._findings.fault(f"A method that is not there was answered with {code.name}.")
