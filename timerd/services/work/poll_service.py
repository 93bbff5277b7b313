"""Receive, Finish and Extend on the wire: checks each request and says in a sentence what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from google.protobuf.duration_pb2 import Duration

from timerd.core.dispatch import Action
from timerd.model.errors import Invalid
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.services.calls.due_times import check_delay, duration_ms
from timerd.services.calls.fields import limit_count, namespace_of, queue_of
from timerd.services.calls.progress import report_of
from timerd.services.calls.results import KeptResults, check_result
from timerd.services.calls.throttles import throttle_of
from timerd.services.transport.local_calls import LocalContext
from timerd.services.transport.status import Context, abort
from timerd.services.work.confirm_wire import NOT_SETTLED
from timerd.services.work.polls import DEFAULT_LEASE_MS, PollFrontend, Polls
from timerd.services.work.said import Said
from timerd.v1 import work_service_pb2 as pb

LEASES_MS = (1_000, 3_600_000)
MAX_WAIT_MS = 60_000
MAX_TASKS = 1_000
MAX_QUEUES = 1_000
MAX_ERROR_CHARS = 16 * 1024


class PollService:
    """Three methods of WorkService."""

    def __init__(self, frontend: PollFrontend, results: KeptResults) -> None:
        self._polls = Polls(frontend)
        self._results = results

    @property
    def in_hand(self) -> int:
        return self._polls.in_hand

    async def receive(self, asked: pb.ReceiveRequest, context: Context | LocalContext) -> pb.ReceiveResponse:
        """Raises NotStored. What does not leave any more is nobody's."""
        namespace, queues = namespace_of(asked.namespace), _queues_of(asked)
        if asked.max_tasks > MAX_TASKS:
            raise Invalid(f"max_tasks is {asked.max_tasks:,}: at most {MAX_TASKS:,} are given at a time.", "max_tasks")
        wait_ms = _between(asked.wait, (0, MAX_WAIT_MS), "wait")
        lease_ms = _lease_ms(asked.lease)
        tasks = await self._polls.receive(namespace, queues, asked.max_tasks or 1, wait_ms / 1000, lease_ms)
        if tasks and isinstance(context, LocalContext):
            # gRPC would keep each call whose end somebody hears of until the next collection of garbage.
            context.on_lost(partial(self._polls.released, [task.ack_token for task in tasks]))
        return pb.ReceiveResponse(tasks=tasks)

    async def finish(self, asked: pb.FinishRequest, context: Context) -> pb.FinishResponse:
        """Raises NotStored. Where it is not durable the call as a whole fails: all of it is to be said again."""
        namespace = namespace_of(asked.namespace)
        _check_tokens(asked.ack_tokens)
        action = _action(asked.action)
        delay_ms = duration_ms(asked.delay, "delay") if asked.HasField("delay") else None
        if delay_ms is not None:
            check_delay(delay_ms, "delay")
        if asked.HasField("result"):
            keep_ms = duration_ms(asked.keep_result, "keep_result")
            check_result(asked.result, keep_ms, is_ack=action is Action.ACK, field="result")
            await self._results.keep(namespace, asked.ack_tokens, asked.result, keep_ms)
        said = Said(action, delay_ms, asked.error[:MAX_ERROR_CHARS], throttle_of(asked, action, "throttle"))
        out = pb.FinishResponse()
        for rows, confirmed in await self._polls.finish(namespace, asked.ack_tokens, said):
            if confirmed.HasField("problem") and confirmed.problem.code != NOT_SETTLED:
                await abort(context, confirmed.problem)
            _add(out, rows, confirmed)
        return out

    def extend(self, asked: pb.ExtendRequest) -> pb.ExtendResponse:
        """Raises NotStored."""
        namespace = namespace_of(asked.namespace)
        _check_tokens(asked.ack_tokens)
        if asked.reports:
            _check_tokens([report.ack_token for report in asked.reports])
        said = {each.ack_token: report_of(each, "reports") for each in asked.reports}
        lost = self._polls.extend(namespace, asked.ack_tokens, _lease_ms(asked.lease))
        self._polls.report(namespace, said)
        return pb.ExtendResponse(lost=lost, interrupts=self._polls.interrupted(namespace, asked.ack_tokens))


def _queues_of(asked: pb.ReceiveRequest) -> tuple[str, ...]:
    """Raises Invalid."""
    if not asked.queues:
        return (queue_of(asked.queue, "queue"),)
    if asked.queue:
        raise Invalid("Tasks are of one queue, or of any of several: give queue or queues.", "queues")
    limit_count(len(asked.queues), MAX_QUEUES, "queues", "queues")
    queues = tuple(queue_of(queue, "queues") for queue in asked.queues)
    if len(set(queues)) < len(queues):
        raise Invalid("queues names one of them twice: name each once.", "queues")
    return queues


def _add(out: pb.FinishResponse, rows: Sequence[int], said: pb.SettleConfirmed) -> None:
    for place, at in enumerate(said.refused):
        out.refused.add(index=rows[at], state=said.states[place] if said.states else None)
    if said.HasField("problem") and not out.HasField("problem"):
        out.problem.CopyFrom(said.problem)


def _check_tokens(tokens: Sequence[bytes]) -> None:
    limit_count(len(tokens), MAX_TASKS, "ack_tokens", "ack_tokens")
    if any(len(token) != ACK_TOKEN_BYTES for token in tokens):
        raise Invalid(
            f"An ack token has {ACK_TOKEN_BYTES} bytes: send back those that Receive has given as they are.",
            "ack_tokens",
        )


def _action(action: int) -> Action:
    try:
        return Action(action)
    except ValueError:
        raise Invalid("The action is missing: set ACK, NACK, REJECT or RELEASE.", "action") from None


def _lease_ms(asked: Duration) -> int:
    return _between(asked, LEASES_MS, "lease") if asked.seconds or asked.nanos else DEFAULT_LEASE_MS


def _between(asked: Duration, bounds_ms: tuple[int, int], field: str) -> int:
    asked_ms = duration_ms(asked, field)
    if not bounds_ms[0] <= asked_ms <= bounds_ms[1]:
        raise Invalid(
            f"{field} is {asked_ms / 1000:g} s: use {bounds_ms[0] / 1000:g} to {bounds_ms[1] / 1000:g} s.", field
        )
    return asked_ms
