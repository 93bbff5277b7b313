"""What one instance does just now, by its counters: what GetOverview adds up over all instances.

Nothing here looks at tasks or asks the store, so that it costs the same with ten tasks and with ten million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from timerd.config import own_version
from timerd.core.assignment import Pool
from timerd.core.dispatch import OTHERS, QueueStats
from timerd.core.partition import PartitionMachine
from timerd.core.taken import QueueKey
from timerd.services.calls.replies import optional_timestamp, timestamp
from timerd.services.dispatch.delivery import Delivery
from timerd.services.engine.engine import Engine
from timerd.services.health.canary import Canary
from timerd.services.holding.scheduler import Scheduler
from timerd.services.work.connected import ConnectedWorker, ConnectedWorkers
from timerd.v1 import overview_service_pb2 as pb

# Beside those that are counted anyway: names come from callers and workers, and an answer is bounded.
MOST_QUEUES = 200
MOST_WORKERS = 200
MOST_QUEUES_OF_A_WORKER = 20
MOST_POOLS_OF_A_WORKER = 20


class Activity:
    """Of one instance. `broken`: how many schedules cannot go on."""

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        delivery: Delivery,
        workers: ConnectedWorkers,
        now_ms: Callable[[], int],
        broken: Callable[[], int],
    ) -> None:
        self._engine = engine
        self._scheduler = scheduler
        self._delivery = delivery
        self._workers = workers
        self._now_ms = now_ms
        self._broken = broken
        self._started_ms = now_ms()
        self._canary: Canary | None = None

    def tell_of(self, canary: Canary) -> None:
        """This instance has one."""
        self._canary = canary

    def is_served(self, queue: QueueKey) -> bool:
        """Whether a worker, a call that receives, a webhook or a stream takes its tasks, at whichever instance."""
        return queue in self._scheduler.memory.worked

    def report(self) -> pb.InstanceActivity:
        """Name and address are what the asking instance knows it by."""
        now_ms = self._now_ms()
        machines = list(self._scheduler.machines.values())
        oldest = [(ms, machine) for machine in machines if (ms := machine.oldest_standing_ms(now_ms)) is not None]
        oldest_ms = min((ms for ms, _ in oldest), default=now_ms)
        # Elsewhere nothing is due, of whichever queue.
        overdue = [machine for ms, machine in oldest if ms <= now_ms]
        memory, streams = self._scheduler.memory, self._workers.streams
        return pb.InstanceActivity(
            version=own_version(),
            start_time=timestamp(self._started_ms),
            in_flight=self._delivery.in_flight,
            loaded=sum(machine.waiting_rows for machine in machines),
            oldest_due_ms=max(0, now_ms - int(oldest_ms)),
            memory_used_bytes=memory.used_bytes,
            memory_budget_bytes=memory.budget_bytes,
            schedules_broken=self._broken(),
            queues=self._queues(machines, overdue, now_ms),
            workers=[self._worker(number, streams[number]) for number in list(streams)[:MOST_WORKERS]],
            worker_count=len(streams),
            canary=_canary(self._canary) if self._canary is not None else None,
        )

    def _queues(
        self, machines: Sequence[PartitionMachine], overdue: Sequence[PartitionMachine], now_ms: int
    ) -> Iterator[pb.QueueActivity]:
        """Those that were scheduled to or delivered from since the start, that have tasks in memory, or workers."""
        counted, scheduled = self._delivery.queue_stats.queues, self._engine.scheduled
        in_hand, workers = self._delivery.machine.in_hand(), self._workers_by_queue()
        loaded = {queue for machine in machines for queue in islice(machine.queues(), MOST_QUEUES)}
        known = {*counted, *scheduled}
        more = {queue for queue in (*workers, *loaded) if not queue.is_internal} - known
        for queue in sorted([*known, *islice(more, MOST_QUEUES)]):
            if queue.is_internal:
                continue
            shown = pb.QueueActivity(
                namespace=queue.namespace,
                queue=queue.queue,
                scheduled=scheduled.get(queue, 0),
                due=sum(m.all_due(queue, now_ms) for m in overdue) if queue != OTHERS else 0,
                in_hand=in_hand.get(queue, 0),
                workers=workers.get(queue, 0),
            )
            if (deliveries := counted.get(queue)) is not None:
                _add_deliveries(shown, deliveries)
            yield shown

    def _worker(self, number: int, worker: ConnectedWorker) -> pb.WorkerActivity:
        pools = self._delivery.machine.capacity.pools.of(number)
        shown = _worker(worker)
        shown.pools.extend(map(_pool, pools[:MOST_POOLS_OF_A_WORKER]))
        return shown

    def _workers_by_queue(self) -> Counter[QueueKey]:
        each = (QueueKey(w.namespace, name) for w in self._workers.streams.values() for name in w.queues)
        return Counter(each)


def _add_deliveries(shown: pb.QueueActivity, counted: QueueStats) -> None:
    shown.sent = sum(counted.lateness.counts)
    shown.settled.update(counted.outcomes)
    shown.dead = counted.dead
    shown.lateness_counts.extend(counted.lateness.counts)


def _canary(canary: Canary) -> pb.CanaryActivity:
    interval_ms, age_ms = canary.settings.interval_ms, max(0, int(canary.age_s * 1000))
    return pb.CanaryActivity(interval_ms=interval_ms, age_ms=age_ms, runs=canary.runs)


def _worker(worker: ConnectedWorker) -> pb.WorkerActivity:
    return pb.WorkerActivity(
        worker=worker.name,
        namespace=worker.namespace,
        queues=list(worker.queues)[:MOST_QUEUES_OF_A_WORKER],
        queue_count=len(worker.queues),
        connect_time=timestamp(worker.connected_ms),
        settled=worker.settled,
        last_settle_time=optional_timestamp(worker.last_settle_ms),
    )


def _pool(pool: Pool) -> pb.PoolActivity:
    queues = sorted(each.queue for each in pool.of.queues)[:MOST_QUEUES_OF_A_WORKER]
    return pb.PoolActivity(name=pool.name, queues=queues, slots=pool.slots, free=pool.free)
