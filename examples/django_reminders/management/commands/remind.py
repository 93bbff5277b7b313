"""`django-admin remind`: the worker."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from examples.django_reminders.timers import worker


class Command(BaseCommand):  # type: ignore[misc] # Django ships without types
    """Sends reminders until SIGTERM."""

    help = "Sends reminders until SIGTERM."

    def handle(self, **_: object) -> None:
        worker.run_forever()
