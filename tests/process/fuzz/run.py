"""The run: a server process, attackers, ordinary use beside them; then a kill, and what was acknowledged is there."""

from __future__ import annotations

import asyncio
import resource
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import grpc.aio

from tests.process.children import Server
from tests.process.fuzz.attack import OPTIONS, UNARY, Attacker
from tests.process.fuzz.control import Control
from tests.process.fuzz.findings import Fault, Findings
from tests.process.fuzz.values import Learned
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1 import timer_service_pb2_grpc

ATTACKERS = 6
# Of what was acknowledged, so many are looked up in the end.
LOOKED_UP = 5_000
_AT_ONCE = 100
_TELL_S = 30


@dataclass
class Report:
    findings: Findings = field(default_factory=Findings)
    control_tasks: int = 0
    looked_up: int = 0
    ledger_unexplained: int = 0

    @property
    def faults(self) -> list[Fault]:
        return self.findings.faults


def run(folder: Path, seconds: float, seed: int, say: Callable[[str], None]) -> Report:
    server = Server(folder)
    server.start()
    try:
        return asyncio.run(_run(server, seconds, seed, say))
    finally:
        server.kill()


async def _run(server: Server, seconds: float, seed: int, say: Callable[[str], None]) -> Report:
    report, learned = Report(), Learned()
    until_s = asyncio.get_running_loop().time() + seconds
    control = Control(server.address, Random(seed))
    attackers = [Attacker(server.address, Random(f"{seed}/{n}"), learned, report.findings) for n in range(ATTACKERS)]
    telling = asyncio.create_task(_tell(server, report.findings, say))
    try:
        await asyncio.gather(control.run(until_s), *(attacker.run(until_s) for attacker in attackers))
    finally:
        telling.cancel()
    report.control_tasks = len(control.wanted)
    for sentence in control.violations():
        report.findings.fault(sentence)
    await _examine(server, report, Random(seed))
    return report


async def _tell(server: Server, findings: Findings, say: Callable[[str], None]) -> None:
    told = 0
    while True:
        await asyncio.sleep(_TELL_S)
        for fault in findings.faults[told:]:
            say(f"FAULT: {fault}")
        told = len(findings.faults)
        memory_mib = resident_bytes(server.pid) >> 20
        counts = f"{findings.messages:,} messages, {len(findings.stored):,} stored, {len(findings.faults)} faults"
        say(f"{counts}; the server's memory {memory_mib} MiB")


def resident_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def _examine(server: Server, report: Report, random: Random) -> None:
    """The process, its log, its ledger; then kill -9, and a look at what it had acknowledged."""
    findings = report.findings
    if not server.is_running():
        findings.fault(f"The server has ended: {server.errors()[-2000:]}")
        return
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        info = await timer_service_pb2_grpc.TimerServiceStub(channel).GetServerInfo(pb.GetServerInfoRequest())
    if info.ledger.unexplained:
        findings.fault(f"The ledger has {info.ledger.unexplained} tasks without a known end.")
    if server.errors():
        findings.fault(f"The server's log is not empty: {server.errors()[:3000]}")
    server.kill()
    server.start()
    await _look_up(server, report, random)


async def _look_up(server: Server, report: Report, random: Random) -> None:
    stored = list(dict.fromkeys(report.findings.stored))
    chosen = random.sample(stored, min(LOOKED_UP, len(stored)))
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        stub = timer_service_pb2_grpc.TimerServiceStub(channel)
        for at in range(0, len(chosen), _AT_ONCE):
            await asyncio.gather(*(_is_there(stub, report.findings, *each) for each in chosen[at : at + _AT_ONCE]))
    report.looked_up = len(chosen)


async def _is_there(stub: timer_service_pb2_grpc.TimerServiceStub, findings: Findings, space: str, task: str) -> None:
    try:
        await stub.Get(pb.GetRequest(namespace=space, task_id=task))
    except grpc.aio.AioRpcError as error:
        findings.fault(f"The acknowledged task {task} of {space!r} is {error.code().name}: {error.details()}")


def send(folder: Path, messages: list[tuple[str, bytes]]) -> Report:
    """The given messages to a fresh server, one after the other: what a failing run printed."""
    server = Server(folder)
    server.start()
    try:
        return asyncio.run(_send(server, messages))
    finally:
        server.kill()


async def _send(server: Server, messages: list[tuple[str, bytes]]) -> Report:
    report = Report()
    attacker = Attacker(server.address, Random(0), Learned(), report.findings)
    streams: dict[str, list[bytes]] = {"Session": [], "Work": []}
    for verb, raw in messages:
        if verb in UNARY:
            await attacker.unary(verb, raw)
        else:
            streams[verb].append(raw)
    if streams["Session"]:
        await attacker.session(streams["Session"])
    if streams["Work"]:
        await attacker.work(streams["Work"])
    await attacker.channel.close()
    if server.errors():
        report.findings.fault(f"The server's log is not empty: {server.errors()}")
    return report


def message_of(text: str) -> tuple[str, bytes]:
    """As a Fault prints it: VERB:BASE64."""
    verb, _, coded = text.partition(":")
    return verb, b64decode(coded)
