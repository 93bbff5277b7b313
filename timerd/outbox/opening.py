"""Which adapter an address of a database means."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from timerd.outbox.ports import DatabaseWrong, OutboxStore

_POSTGRES = ("postgres", "postgresql")
# As SQLAlchemy and Django's tools write them.
_DRIVER = re.compile(r"^(\w+)\+\w+:")


def open_outbox(url: str) -> OutboxStore:
    """Connects with the first call. Raises DatabaseWrong."""
    plain = _DRIVER.sub(r"\1:", url)
    parts = urlsplit(plain)
    if parts.scheme == "sqlite":
        from timerd.outbox.sqlite import SqliteOutbox

        return SqliteOutbox(_file_of(parts.path, parts.netloc))
    if parts.scheme not in _POSTGRES:
        raise DatabaseWrong(
            "The address of the database begins with postgresql:// or sqlite://, for example "
            "postgresql://app@127.0.0.1/shop or sqlite:///shop.db."
        )
    try:
        from timerd.outbox.postgres import PostgresOutbox
    except ModuleNotFoundError:
        raise DatabaseWrong("PostgreSQL needs the package asyncpg: install timerd with its extra `outbox`.") from None
    hosts = parse_qs(parts.query).get("host", ["the local socket"])
    host = parts.netloc.rpartition("@")[2] or hosts[0]
    return PostgresOutbox(plain, f"PostgreSQL at {host}, database {parts.path.strip('/') or 'of the user'}")


def _file_of(path: str, host: str) -> Path:
    """As SQLAlchemy reads them: sqlite:///shop.db is here, sqlite:////srv/shop.db from the root."""
    if host or not path.strip("/"):
        raise DatabaseWrong("A SQLite database is named by sqlite:///FILE, or sqlite:////PATH/FILE from the root.")
    return Path(path.removeprefix("/"))
