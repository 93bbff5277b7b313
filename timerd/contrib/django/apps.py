"""What Django knows of the app."""

from __future__ import annotations

from django.apps import AppConfig


class TimerdConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Its label is `timerd`, for the migrations."""

    name = "timerd.contrib.django"
    label = "timerd"
    verbose_name = "timerd"
