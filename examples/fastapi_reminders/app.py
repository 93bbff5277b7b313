"""The shop: it reminds of orders that are not paid in two days. `python -m examples.fastapi_reminders.app` works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from fastapi import FastAPI

from timerd import Client, ConnectOptions, Worker
from timerd.tasks import Tasks

TIMERD = "127.0.0.1:7400"
PAY_WITHIN = timedelta(days=2)
tasks = Tasks()
mails: list[str] = []


@tasks.task("reminders")
async def remind(order: int) -> None:
    mails.append(f"Please pay order {order}.")
    print(mails[-1], flush=True)


def create_app(timerd: str | ConnectOptions = TIMERD) -> FastAPI:
    """One client serves all requests of a process; it is opened and closed with the application."""
    timers = Client(timerd)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with timers:
            tasks.bind(timers)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.put("/orders/{number}")
    async def order(number: int) -> dict[str, str]:
        task = await remind.schedule(number, delay=PAY_WITHIN, key=f"order-{number}", on_conflict="keep")
        return {"reminder": task.fire_time.isoformat()}

    @app.put("/orders/{number}/payment")
    async def pay(number: int) -> dict[str, str]:
        return {"reminder": (await timers.cancel(key=f"order-{number}")).name}

    return app


async def work() -> None:
    worker = Worker(TIMERD)
    worker.include(tasks)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(work())
