"""Which adapter an address of a database means."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from timerd.outbox.ports import DatabaseWrong, OutboxStore

_POSTGRES, _MYSQL = ("postgres", "postgresql"), ("mysql", "mariadb")
# As SQLAlchemy and Django's tools write them.
_DRIVER = re.compile(r"^(\w+)\+\w+:")
# What may stand behind the name of a MySQL database.
_MYSQL_OPTIONS = ("read_default_file", "ssl_ca", "unix_socket")


def open_outbox(url: str) -> OutboxStore:
    """Connects with the first call. Raises DatabaseWrong."""
    plain = _DRIVER.sub(r"\1:", url)
    parts = urlsplit(plain)
    if parts.scheme == "sqlite":
        from timerd.outbox.sqlite import SqliteOutbox

        return SqliteOutbox(_file_of(parts.path, parts.netloc))
    if parts.scheme in _MYSQL:
        return _mysql(parts)
    if parts.scheme not in _POSTGRES:
        raise DatabaseWrong(
            "The address of the database begins with postgresql://, mysql:// or sqlite://, for example "
            "postgresql://app@127.0.0.1/shop, mysql://app@127.0.0.1/shop or sqlite:///shop.db."
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


def _mysql(parts: SplitResult) -> OutboxStore:
    given = _mysql_given(parts)
    try:
        from timerd.outbox.mysql import MysqlOutbox
    except ModuleNotFoundError:
        raise DatabaseWrong("MySQL needs the package PyMySQL: install timerd with its extra `mysql`.") from None
    where = parts.netloc.rpartition("@")[2] or given.get("unix_socket", "the local socket")
    return MysqlOutbox(given, f"MySQL at {where}, database {given['database']}")


def _mysql_given(parts: SplitResult) -> dict[str, Any]:
    """What the driver connects by."""
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    database = unquote(parts.path.strip("/"))
    if not database or options.keys() - _MYSQL_OPTIONS:
        raise DatabaseWrong(
            "A MySQL database is named by mysql://USER:PASSWORD@HOST:PORT/NAME, with "
            f"{', '.join(_MYSQL_OPTIONS)} behind a question mark where they are wanted."
        )
    named = {"host": parts.hostname, "user": parts.username, "password": parts.password}
    given: dict[str, Any] = {name: unquote(value) for name, value in named.items() if value}
    given |= {"database": database, **options, **({"port": parts.port} if parts.port else {})}
    # An authority is there to show that the server is the right one.
    return given | ({"ssl_verify_cert": True, "ssl_verify_identity": True} if "ssl_ca" in options else {})
