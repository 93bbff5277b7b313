"""What replies say: problems inside them, tasks that are stored, and what later messages may send back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from tests.process.fuzz.findings import Findings, Message
from tests.process.fuzz.values import Learned
from timerd.sdk.values.ids import Composer
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

STORED = task_pb2.ITEM_OUTCOME_STORED
ACK_TOKEN_BYTES = 64


def parsed(kind: Any, raw: bytes) -> Any | None:  # noqa: ANN401
    """None: the message was no message, so it stored nothing."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


class Reader:
    def __init__(self, findings: Findings, learned: Learned) -> None:
        self._findings = findings
        self._learned = learned

    def unary(self, verb: str, request_raw: bytes, reply: Any, *sent: Message) -> None:  # noqa: ANN401
        """A reply of TimerService."""
        if verb == "Schedule":
            request = parsed(pb.ScheduleRequest, request_raw)
            if request is not None and reply.outcome == STORED:
                self._stored(request.namespace, reply.task_id)
        elif verb == "ScheduleBatch":
            self.batch(parsed(pb.ScheduleBatchRequest, request_raw), reply, *sent)
        elif verb == "Redrive":
            self._items(verb, reply.results, sent)
        if token := getattr(reply, "next_page_token", ""):
            self._learned.page_tokens.append(token)

    def batch(self, request: pb.ScheduleBatchRequest | None, reply: pb.ScheduleBatchResponse, *sent: Message) -> None:
        if request is None:
            self._findings.fault("A message that cannot be read was stored.", *sent)
            return
        self._items("ScheduleBatch", reply.results, sent)
        ids = [r.task_id for r in reply.results if r.outcome == STORED] or list(composed(request, reply))
        if len(ids) != reply.stored:
            self._findings.fault(f"{reply.stored} tasks are said to be stored, {len(ids)} have an id.", *sent)
        for task_id in ids:
            self._stored(request.namespace, task_id)

    def _items(self, verb: str, results: Any, sent: tuple[Message, ...]) -> None:  # noqa: ANN401
        for result in results:
            if result.HasField("problem"):
                self._findings.answered(f"{verb} item", result.problem.code, result.problem.message, *sent)

    def _stored(self, namespace: str, task_id: str) -> None:
        self._findings.stored.append((namespace, task_id))
        self._learned.task_ids.append(task_id)

    def session(self, request: pb.SessionRequest | None, reply: pb.SessionResponse, *sent: Message) -> None:
        code = reply.problem.code if reply.HasField("problem") else 0
        self._findings.answered("Session message", code, reply.problem.message, *sent)
        if reply.HasField("schedule") and request is not None:
            self.batch(request.schedule, reply.schedule, *sent)

    def work(self, reply: Any, *sent: Message) -> None:  # noqa: ANN401
        """A response of a Work stream."""
        kind = reply.WhichOneof("response")
        if kind == "deliver":
            raw = reply.deliver.ack_tokens
            self._learned.ack_tokens.extend(raw[at : at + ACK_TOKEN_BYTES] for at in range(0, len(raw), 64))
        problem = reply.confirmed.problem if kind == "confirmed" and reply.confirmed.HasField("problem") else None
        code, sentence = (problem.code, problem.message) if problem else (0, "")
        self._findings.answered(f"Work {kind}", code, sentence, *sent)


def composed(request: pb.ScheduleBatchRequest, reply: pb.ScheduleBatchResponse) -> Iterator[str]:
    """Ids of a batch that was stored whole."""
    if not reply.HasField("placement"):
        return
    fire_at_ms = reply.fire_at_ms or request.columns.fire_at_ms
    composer = Composer(reply.placement, fire_at_ms)
    for index in range(reply.stored):
        yield composer.task_id(index)
