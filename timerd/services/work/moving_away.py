"""When a partition gets another holder, what workers have of it is not open here any more: their homes hear of it, and
make it known to the instance that has the rows now."""

from __future__ import annotations

from collections.abc import Callable, Collection

from timerd.core.taken import QueueKey
from timerd.model.partition import Partition
from timerd.services.dispatch.delivery import Delivery
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.work.home import Home
from timerd.services.work.relay_service import RelayedWorker

# So that a worker hears what became of what it has just said.
MOVE_ON_MS = 100


# So many deliveries of the queue and limit key are another instance's from now on.
Moved = Callable[[QueueKey, str, int], None]


def moved_away(partition: Partition, waiting: Collection[bytes], delivery: Delivery, home: Home, moved: Moved) -> None:
    """`waiting`: delivery ids of what was sent from another partition, and whose rows were carried to this one."""
    for worker, taken in delivery.machine.move_away(partition, waiting):
        template = taken.rows.template_of(0)
        moved(QueueKey(template.namespace, template.queue), template.limit_key, len(taken))
        sink = delivery.sink(worker)
        tokens = ack_tokens(taken, delivery.secret)
        if isinstance(sink, RelayedWorker):
            sink.moved(tokens)
        elif sink is not None:
            home.orphaned(worker, tokens)
    delivery.settled()


def stop_wait_ms(drain_ms: int, elsewhere: Collection[str]) -> int:
    """How long a stop waits for what workers have in hand. Where others serve, the instance that took over has it, too,
    and the workers find it there; what is due for them while they wait here comes late by just this."""
    return min(drain_ms, MOVE_ON_MS) if elsewhere else drain_ms
