"""A program with Django, in a process of its own: its migration, its transactions, its command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from timerd.contrib.django.management.commands.timerd_outbox import address_of
from timerd.outbox.messages import rows_in
from timerd.outbox.opening import open_outbox
from timerd.outbox.rows import RowVerb

PROGRAM = """
import sys
from datetime import datetime, timezone
import django
from django.conf import settings
settings.configure(
    INSTALLED_APPS=["timerd.contrib.django"], USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}},
)
django.setup()
from django.core.management import call_command
from django.db import connection, transaction
from timerd.contrib.django import outbox
call_command("migrate", verbosity=0)
at = datetime(2030, 1, 31, 9, tzinfo=timezone.utc)
with transaction.atomic():
    outbox.schedule("mails", "welcome", at=at, key="ada", priority=3)
    outbox.reschedule("bob", at=at)
    outbox.cancel("eve")
try:
    with transaction.atomic():
        outbox.schedule("mails", b"never", at=at)
        raise KeyError
except KeyError:
    pass
call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
if sys.argv[1:]:
    call_command("migrate", "timerd", "zero", verbosity=0)
    print(connection.introspection.table_names())
"""


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_a_transaction_asks_for_tasks(tmp_path: Path) -> None:
    run(tmp_path)
    store = open_outbox(f"sqlite:///{tmp_path / 'shop.db'}")
    batches, _ = await store.seal("one", 60.0)
    assert [each.verb for each in batches] == [RowVerb.SCHEDULE, RowVerb.RESCHEDULE, RowVerb.CANCEL]
    [row] = rows_in(batches[0])
    assert (row.key, row.payload, row.fire_at_ms, row.options) == (
        "ada",
        b"welcome",
        1_896_080_400_000,
        '{"priority": 3}',
    )
    await store.close()


def test_the_migration_goes_backwards(tmp_path: Path) -> None:
    assert "timerd_outbox" not in run(tmp_path, "backwards")


@pytest.mark.parametrize(
    ("settings", "vendor", "address"),
    [
        ({"NAME": "/srv/shop.db"}, "sqlite", "sqlite:////srv/shop.db"),
        ({"NAME": "shop"}, "postgresql", "postgresql:///shop"),
        (
            {"NAME": "shop", "HOST": "db", "PORT": 5432, "USER": "app", "PASSWORD": "a&b"},
            "postgresql",
            "postgresql:///shop?host=db&port=5432&user=app&password=a%26b",
        ),
        ({"NAME": "shop"}, "mysql", "mysql://127.0.0.1/shop"),
        (
            {"NAME": "shop", "HOST": "db", "PORT": 3306, "USER": "app", "PASSWORD": "a&@b", "OPTIONS": {}},
            "mysql",
            "mysql://app:a%26%40b@db:3306/shop",
        ),
        (
            {"NAME": "shop", "HOST": "/run/my.sock", "USER": "app", "OPTIONS": {"ssl": {"ca": "/ca.pem"}}},
            "mysql",
            "mysql://app@/shop?unix_socket=%2Frun%2Fmy.sock&ssl_ca=%2Fca.pem",
        ),
    ],
)
def test_the_relay_is_told_the_database_of_the_settings(settings: dict[str, object], vendor: str, address: str) -> None:
    assert address_of(settings, vendor) == address
