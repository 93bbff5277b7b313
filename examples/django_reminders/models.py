"""What the shop keeps."""

from __future__ import annotations

from django.db import models


class Order(models.Model):  # type: ignore[misc] # Django ships without types
    """An order by its number, whether it is paid, and how often it was reminded of."""

    paid = models.BooleanField(default=False)
    reminders = models.IntegerField(default=0)
