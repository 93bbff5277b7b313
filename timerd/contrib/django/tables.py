"""The outbox's tables, in PostgreSQL, MySQL, MariaDB and SQLite. Other databases are passed over."""

from __future__ import annotations

from typing import Any

from django.db import migrations

from timerd.outbox import mysql_schema, postgres_schema, sqlite_schema


def make(_: Any, editor: Any) -> None:  # noqa: ANN401 - Django has no types
    """In the migration's own transaction."""
    made = {
        "postgresql": [postgres_schema.DDL],
        "mysql": mysql_schema.statements(),
        "sqlite": sqlite_schema.statements(),
    }
    _run(editor, made)


def drop(_: Any, editor: Any) -> None:  # noqa: ANN401 - Django has no types
    dropped = {
        "postgresql": [postgres_schema.DROP],
        "mysql": [*mysql_schema.DROP],
        "sqlite": [*sqlite_schema.DROP],
    }
    _run(editor, dropped)


def _run(editor: Any, statements: dict[str, list[str]]) -> None:  # noqa: ANN401 - Django has no types
    for statement in statements.get(editor.connection.vendor, []):
        editor.connection.cursor().execute(statement)


class OutboxTables(migrations.Migration):  # type: ignore[misc]  # Django has no types
    """Of each database that is migrated."""

    operations = [migrations.RunPython(make, drop)]  # noqa: RUF012 - Django's form
