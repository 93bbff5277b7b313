"""Who sends, and who keeps a limit, in a test cluster."""

from __future__ import annotations

from timerd.core.regulation import LimitLabels
from timerd.core.taken import QueueKey
from timerd.testing import Cluster

TTL_S = 10


async def wait(cluster: Cluster, seconds: float) -> None:
    """In steps that are short for a token: calls between instances take no virtual time."""
    for _ in range(round(seconds * 10)):
        await cluster.advance(milliseconds=100)


def senders(cluster: Cluster, queue: str = "mails") -> set[str]:
    """The instances that have sent some of its tasks."""
    stats = {
        name: each.node.delivery.queue_stats.of(QueueKey("default", queue)) for name, each in cluster.instances.items()
    }
    return {name for name, each in stats.items() if sum(each.lateness.counts)}


def keeper(cluster: Cluster) -> str:
    """Who keeps the limit of the queue."""
    labels = LimitLabels("default", "mails", "")
    for name, each in cluster.instances.items():
        ruled = each.node.regulating
        assert ruled is not None
        assert ruled.borrowing is not None
        if ruled.borrowing.keepers.books_of(labels) is not None:
            return name
    return ""
