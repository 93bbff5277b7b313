"""A schedule beside the tasks: one occurrence a second, through the kill. Whether each of its instants came, once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from timerd.client import Client
from timerd.demo.records import Confirmed, DeliveryRecord, Logs

QUEUE = "demo-every-second"
SCHEDULE = "every-second"
# Its worker, and the name of the log.
WORKER = "every-second"
_SECOND_MS = 1_000
# So long after the call its first instant lies, so that it is there in time.
_AHEAD_MS = 1_000
_WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Seconds:
    """The instants are the whole seconds from `first_ms` on."""

    first_ms: int
    count: int

    @property
    def instants_ms(self) -> range:
        return range(self.first_ms, self.first_ms + self.count * _SECOND_MS, _SECOND_MS)

    @property
    def end_ms(self) -> int:
        return self.first_ms + self.count * _SECOND_MS

    @property
    def most_ticks(self) -> int:
        """Tasks of the server's own that create the others: two for the first minute, one for each that follows; and as
        many again, since a kill may repeat them."""
        return 2 * (2 + self.count // _WINDOW_S)


@dataclass(frozen=True, slots=True)
class Judgement:
    """`came`: instants that had a task. The others are sentences, one for each case."""

    instants: int
    came: int
    wrong: tuple[str, ...]


def seconds_from(start_ms: int, seconds: int) -> Seconds:
    return Seconds(math.ceil((start_ms + _AHEAD_MS) / _SECOND_MS) * _SECOND_MS, seconds)


async def create(client: Client, seconds: Seconds) -> None:
    """Everything that was missed while the server was away comes when it is back."""
    start, end = (
        datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=at) for at in (seconds.first_ms, seconds.end_ms)
    )
    await client.schedules.create(SCHEDULE, queue=QUEUE, payload="0", every=1, start=start, end=end, catch_up="all")


def judge(seconds: Seconds, logs: Logs) -> Judgement:
    """By what the worker wrote down. A task may come again until its ack is confirmed."""
    tasks: dict[int, set[str]] = defaultdict(set)
    for each in logs.deliveries:
        tasks[each.fire_at_ms].add(each.task_id)
    wrong = [f"the instant {at} never came" for at in seconds.instants_ms if at not in tasks]
    wrong += [f"a task came for {at}, which is no instant" for at in tasks if at not in seconds.instants_ms]
    wrong += [f"the instant {at} came as {len(ids)} tasks" for at, ids in tasks.items() if len(ids) > 1]
    wrong += _badly_delivered(logs.deliveries, logs.confirmed)
    return Judgement(seconds.count, sum(at in tasks for at in seconds.instants_ms), tuple(wrong))


def _badly_delivered(deliveries: Sequence[DeliveryRecord], confirmed: Iterable[Confirmed]) -> list[str]:
    over_ms: Mapping[str, float] = {each.delivery_id: each.confirmed_ms for each in confirmed}
    early = [each for each in deliveries if each.received_ms < each.fire_at_ms]
    again = [each for each in deliveries if each.received_ms > over_ms.get(each.delivery_id, math.inf)]
    return [f"the instant {each.fire_at_ms} came at {each.received_ms:.3f}, which is early" for each in early] + [
        f"the instant {each.fire_at_ms} came again after its ack was confirmed" for each in again
    ]


def is_complete(seconds: Seconds, logs: Logs) -> bool:
    """Each instant has a task whose ack was confirmed."""
    over = {each.delivery_id for each in logs.confirmed}
    return {each.fire_at_ms for each in logs.deliveries if each.delivery_id in over} >= {*seconds.instants_ms}
