"""The fuzzer in its short form, and that it finds what it looks for."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from random import Random

import pytest
from google.protobuf import duration_pb2

from tests.process.fuzz.attack import UNARY, shortened
from tests.process.fuzz.findings import Findings, Message
from tests.process.fuzz.run import message_of, run, send
from tests.process.fuzz.values import Generator, Learned
from timerd.v1 import timer_service_pb2 as pb

pytestmark = pytest.mark.process
SECONDS, SEED = 6.0, 7


def test_wild_messages_break_no_promise(tmp_path: Path) -> None:
    said: list[str] = []
    report = run(tmp_path, SECONDS, SEED, said.append)
    assert [str(fault) for fault in report.faults] == []
    statuses = {status for _, status in report.findings.answers}
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= statuses
    assert {verb for verb, _ in report.findings.answers} >= {"Schedule", "ScheduleBatch", "Session", "Work"}
    assert report.looked_up > 0
    assert report.control_tasks > 0


def test_a_seed_stands_for_its_messages() -> None:
    kinds = [method.input_type for method in UNARY.values()]
    one, other = (Generator(Random(SEED), Learned()) for _ in range(2))
    one.now_ms = other.now_ms = lambda: 1_800_000_000_000  # type: ignore[method-assign]
    assert [one.raw(kind) for kind in kinds * 20] == [other.raw(kind) for kind in kinds * 20]


def test_a_wait_of_a_minute_takes_a_second() -> None:
    for seconds, sent in ((60, 1), (2, 1), (1, 1), (61, 61), (-5, -5)):
        raw = pb.WaitRequest(key="a", timeout=duration_pb2.Duration(seconds=seconds)).SerializeToString()
        assert pb.WaitRequest.FromString(shortened(pb.WaitRequest, raw)).timeout.seconds == sent
    assert shortened(pb.WaitRequest, b"\xff") == b"\xff"


def test_what_no_answer_may_be_is_a_fault_with_its_command() -> None:
    findings = Findings()
    message = Message("/timerd.v1.TimerService/Get", b"\x0a\x01x")
    findings.answered("Get", 5, "There is no such task: check the id.", message)
    assert findings.faults == []
    for code, sentence in (
        (13, "broken"),
        (2, "unknown"),
        (4, "late"),
        (3, ""),
        (3, "Traceback (most recent call last)"),
    ):
        findings.answered("Get", code, sentence, message)
    assert len(findings.faults) == 5
    command = str(findings.faults[0]).split()
    assert message_of(command[-1]) == ("Get", message.raw)


def test_printed_messages_can_be_sent_again(tmp_path: Path) -> None:
    texts = ["Get:" + b64encode(pb.GetRequest(task_id="x").SerializeToString()).decode(), "Session:/w==", "Work:/w=="]
    report = send(tmp_path, [message_of(text) for text in texts])
    assert report.faults == []
    answers = report.findings.answers
    assert (answers["Get", "NOT_FOUND"], answers["Session message", "INVALID_ARGUMENT"]) == (1, 1)
    assert answers["Work", "INVALID_ARGUMENT"] == 1
