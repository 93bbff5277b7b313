"""The client of the views, and the worker that sends reminders."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.db import close_old_connections
from django.db.models import F

from examples.django_reminders.models import Order
from timerd import Delivery, SyncClient, Worker

worker = Worker(settings.TIMERD)


@cache
def timers() -> SyncClient:
    """One for each process, made when it is first needed."""
    return SyncClient(settings.TIMERD)


@worker.on("reminders", concurrency=4)
def remind(delivery: Delivery) -> None:
    """An order that is paid meanwhile is left alone: the database says what is true."""
    close_old_connections()
    Order.objects.filter(pk=int(delivery.payload), paid=False).update(reminders=F("reminders") + 1)
    close_old_connections()
