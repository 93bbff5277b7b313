"""As few settings as the shop gets by with."""

from __future__ import annotations

from timerd import ConnectOptions

SECRET_KEY = "of an example"
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = ["examples.django_reminders"]
ROOT_URLCONF = "examples.django_reminders.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Handlers run in threads, which do not share a database in memory.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": "reminders.sqlite3",
        "TEST": {"NAME": "test-reminders.sqlite3"},
    }
}
TIMERD: str | ConnectOptions = "127.0.0.1:7400"
