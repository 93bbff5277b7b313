"""RescheduleBatch: many moves in one message. Each is a call of its own, known to its repeats by its own request_id and
content, so it may be repeated alone or in another batch."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from timerd.model.errors import Invalid, NotFound, NotStored
from timerd.model.identity import TaskId
from timerd.services.calls.due_times import clock_of
from timerd.services.calls.fields import key_of, limit_count, namespace_of, request_id_of
from timerd.services.calls.repeats import name_of, named
from timerd.services.calls.replies import timestamp
from timerd.services.calls.targets import genuine, not_found
from timerd.services.engine.verbs import AskedMove, Verbs
from timerd.services.transport.status import problem_of
from timerd.v1 import timer_service_pb2 as wire

# Each is some ten steps at the store.
MAX_MOVES = 1_000


@dataclass(slots=True)
class _Move:
    """`path`: of the message in the request. `wrong`: why it would be refused for its time; an earlier try may have
    carried it out."""

    path: str
    message: wire.RescheduleRequest
    request: str
    fire_at_ms: int
    asked_ms: int
    wrong: Invalid | None
    task: TaskId | None = None


class ManyMoves:
    """`changed` counts what was moved."""

    def __init__(self, verbs: Verbs, changed: Counter[str]) -> None:
        self._verbs = verbs
        self._changed = changed

    async def reschedule_batch(self, request: wire.RescheduleBatchRequest) -> wire.RescheduleBatchResponse:
        namespace = namespace_of(request.namespace)
        limit_count(len(request.moves), MAX_MOVES, "moves", "moves")
        now_ms = self._verbs.now_ms()
        moves = [_read(namespace, f"moves[{at}]", each, now_ms) for at, each in enumerate(request.moves)]
        await self._find(namespace, moves)
        _refuse_twice(moves)
        answers = await self._carry_out(namespace, [each for each in moves if each.task is not None])
        reply = wire.RescheduleBatchResponse(results=[_result(namespace, each, answers) for each in moves])
        self._changed["moved"] += sum(not result.HasField("problem") for result in reply.results)
        return reply

    async def _find(self, namespace: str, moves: Sequence[_Move]) -> None:
        """All tries of a move are about the task that had the key at its first."""
        keyed: list[tuple[_Move, bytes]] = []
        for each in moves:
            if each.message.WhichOneof("target") == "task_id":
                each.task = genuine(self._verbs.secret, namespace, each.message.task_id)
            elif each.wrong is None:
                keyed.append((each, name_of(namespace, each.message)))
            else:
                each.task = await self._known(namespace, each)
        asked = [(each.message.key, name) for each, name in keyed]
        for (each, _), task in zip(keyed, await self._verbs.resolve_each(namespace, asked), strict=True):
            each.task = task

    async def _known(self, namespace: str, move: _Move) -> TaskId | None:
        """The task that earlier tries of a move by key were about."""
        name = name_of(namespace, move.message)
        known = await self._verbs.recall(name) if name else None
        return genuine(self._verbs.secret, namespace, known.decode()) if known else None

    async def _carry_out(self, namespace: str, moves: Sequence[_Move]) -> Mapping[str, int | NotStored]:
        """path -> the new fire time, or why there is none."""
        late = [each for each in moves if each.wrong is not None and each.task is not None]
        good = [each for each in moves if each.wrong is None and each.task is not None]
        before = (self._verbs.moved_before(namespace, each.request, each.task) for each in late if each.task)
        answers: dict[str, int | NotStored] = {
            each.path: moved_ms
            for each, moved_ms in zip(late, await asyncio.gather(*before), strict=True)
            if moved_ms is not None
        }
        asked = [AskedMove(each.request, each.task, each.fire_at_ms, each.asked_ms) for each in good if each.task]
        said = await self._verbs.reschedule(namespace, asked) if asked else ()
        return answers | {each.path: answer for each, answer in zip(good, said, strict=True)}


def _read(namespace: str, path: str, message: wire.RescheduleRequest, now_ms: int) -> _Move:
    """Raises Invalid where nothing of the message could be right at any time."""
    if message.namespace and namespace_of(message.namespace) != namespace:
        raise Invalid(
            f"A move of the batch names the namespace {message.namespace!r}, and the batch {namespace!r}: leave it out "
            "of the moves, or send a batch for each namespace.",
            f"{path}.namespace",
        )
    which = message.WhichOneof("target")
    if which is None or (which == "key" and not key_of(message.key, f"{path}.key")):
        raise Invalid("Neither task_id nor key is set: give one of them, so that it is known which task.", path)
    clock, wrong, fire_at_ms = clock_of(message, now_ms), None, 0
    try:
        clock.refuse_too_old()
        fire_at_ms = clock.fire_at_ms(message, message.WhichOneof("due"), f"{path}.")
    except Invalid as error:
        wrong = error
    asked_ms = clock.asked_ms() if wrong is None else 0
    return _Move(path, message, named(request_id_of(message.request_id), message), fire_at_ms, asked_ms, wrong)


def _refuse_twice(moves: Sequence[_Move]) -> None:
    """They go side by side: which of two came last would be chance."""
    first: dict[bytes, str] = {}
    for each in moves:
        if each.task is not None:
            before = first.setdefault(each.task.digest, each.path)
            if before != each.path:
                raise Invalid(f"{before} and {each.path} are of one task: give it once in a message.", each.path)


def _result(namespace: str, move: _Move, answers: Mapping[str, int | NotStored]) -> wire.RescheduleResult:
    answer = answers.get(move.path)
    if isinstance(answer, int):
        return wire.RescheduleResult(task_id=str(move.task), fire_time=timestamp(answer))
    return wire.RescheduleResult(problem=problem_of(answer or move.wrong or _unknown_task(namespace, move.message)))


def _unknown_task(namespace: str, message: wire.RescheduleRequest) -> NotFound:
    if message.WhichOneof("target") == "task_id":
        return not_found(namespace, message.task_id)
    return NotFound(f"No task has the key {message.key!r}.", "NOT_FOUND")
