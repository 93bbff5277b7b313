"""The outbox's tables, in PostgreSQL and SQLite. Other databases are passed over: an outbox is for those two."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from timerd.outbox import postgres_schema, sqlite_schema


def make(_: Any, editor: Any) -> None:  # noqa: ANN401 - Django has no types
    """In the migration's own transaction."""
    for statement in _statements(editor.connection.vendor, postgres_schema.DDL, sqlite_schema.statements()):
        editor.connection.cursor().execute(statement)


def drop(_: Any, editor: Any) -> None:  # noqa: ANN401 - Django has no types
    for statement in _statements(editor.connection.vendor, postgres_schema.DROP, [*sqlite_schema.DROP]):
        editor.connection.cursor().execute(statement)


def _statements(vendor: str, postgresql: str, sqlite: list[str]) -> list[str]:
    return {"postgresql": [postgresql], "sqlite": sqlite}.get(vendor, [])


class OutboxTables(migrations.Migration):  # type: ignore[misc]  # Django has no types
    """Of each database that is migrated."""

    operations = [migrations.RunPython(make, drop)]  # noqa: RUF012 - Django's form
