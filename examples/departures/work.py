"""The gate: a worker that writes down what it receives, with its own clock, before it acknowledges."""

from __future__ import annotations

from pathlib import Path

from examples.departures.logs import LogWriter, Received, now_ms
from timerd import Delivery, Worker


def run_worker(address: str, queue: str, log: Path) -> None:
    """Until SIGTERM."""
    writer = LogWriter(log)
    worker = Worker(address, name=f"gate-{queue}")

    @worker.on_batch(queue)
    async def announce(deliveries: list[Delivery]) -> None:
        received_ms = now_ms()
        writer.write(received(each, received_ms) for each in deliveries)

    try:
        worker.run_forever()
    finally:
        writer.close()


def received(delivery: Delivery, received_ms: float) -> Received:
    return Received(
        flight_id=delivery.payload.decode(),
        task_id=delivery.task_id,
        delivery_id=delivery.delivery_id,
        attempt=delivery.attempt,
        fire_at_ms=delivery.fire_at_ms,
        received_ms=received_ms,
    )
