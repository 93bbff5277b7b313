"""The shop: it reminds of orders that are not paid within two days. `python -m examples.flask_reminders.app` works."""

from __future__ import annotations

from datetime import timedelta

from flask import Flask

from timerd import ConnectOptions, Delivery, SyncClient, Worker

TIMERD = "127.0.0.1:7400"
PAY_WITHIN = timedelta(days=2)
worker = Worker(TIMERD)
mails: list[str] = []


def create_app(timerd: str | ConnectOptions = TIMERD) -> Flask:
    """The client connects with its first call, so each process that a server forks has a connection of its own."""
    app, timers = Flask(__name__), SyncClient(timerd)

    @app.put("/orders/<int:number>")
    def order(number: int) -> dict[str, str]:
        task = timers.schedule("reminders", str(number), delay=PAY_WITHIN, key=f"order-{number}", on_conflict="keep")
        return {"reminder": task.fire_time.isoformat()}

    @app.put("/orders/<int:number>/payment")
    def pay(number: int) -> dict[str, str]:
        return {"reminder": timers.cancel(key=f"order-{number}").name}

    return app


@worker.on("reminders")
def remind(delivery: Delivery) -> None:
    mails.append(f"Please pay order {delivery.payload.decode()}.")
    print(mails[-1], flush=True)


if __name__ == "__main__":
    worker.run_forever()
