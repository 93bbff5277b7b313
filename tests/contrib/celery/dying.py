"""A publisher that ends itself by kill -9 between the broker's answer and the acknowledgement, the worst moment:
`python -m tests.contrib.celery.dying SERVER BROKER MESSAGES`."""

from __future__ import annotations

import os
import signal
import sys

from timerd.contrib.celery import Publisher
from timerd.worker import Delivery, Worker


class Dying(Publisher):
    """Publishes so many messages, also where that is within a batch, and acknowledges none of the last batch."""

    left = 0

    def publish(self, deliveries: list[Delivery]) -> list[BaseException | None]:
        ended = super().publish(deliveries[: self.left])
        self.left -= len(ended)
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        return ended


def main() -> None:
    server, broker, messages = sys.argv[1:]
    worker = Worker(server)
    publisher = Dying(broker, concurrency=1)
    publisher.left = int(messages)
    publisher.attach(worker)
    print("ready", flush=True)
    worker.run_forever()


if __name__ == "__main__":
    main()
