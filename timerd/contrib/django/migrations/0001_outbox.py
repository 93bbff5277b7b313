"""The outbox. Django looks for a `Migration` in here."""

from __future__ import annotations

from timerd.contrib.django.tables import OutboxTables as Migration

__all__ = ["Migration"]
