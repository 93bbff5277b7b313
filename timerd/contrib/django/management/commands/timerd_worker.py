"""`manage.py timerd_worker`. Django looks for a `Command` in here."""

from __future__ import annotations

from timerd.contrib.django.worker_command import WorkerCommand as Command

__all__ = ["Command"]
