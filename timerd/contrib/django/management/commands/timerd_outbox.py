"""`manage.py timerd_outbox`: the relay, for a database of Django's settings."""

from __future__ import annotations

import os
import sys
from typing import Any
from urllib.parse import quote, urlencode

from django.core.management.base import BaseCommand, CommandError
from django.db import DEFAULT_DB_ALIAS, connections

# Of OPTIONS, what says whom the connection trusts and what it shows; the rest is of Django's own connections.
_PASSED_ON = ("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
_HELP = "Sends what is in the outbox to timerd until Ctrl-C: `timerd outbox run` for a database of the settings."


class Command(BaseCommand):  # type: ignore[misc]  # Django has no types
    """All options beside --using are those of `timerd outbox run`."""

    help = _HELP

    def add_arguments(self, parser: Any) -> None:  # noqa: ANN401 - Django has no types
        parser.add_argument("--using", default=DEFAULT_DB_ALIAS, help="Alias of the database.")
        parser.add_argument("--server", default=None, help="Where timerd listens; or TIMERD_SERVER.")
        parser.add_argument("--lease", default="60s", help="After so long another relay takes over.")

    def handle(self, *_: object, using: str, server: str | None, lease: str, **__: object) -> None:
        """As a process of its own, in the place of this one: it has no use for Django."""
        address = address_of(connections[using].settings_dict, connections[using].vendor)
        named = [] if server is None else ["--server", server]
        command = [sys.executable, "-m", "timerd.cli", "outbox", "run", "--lease", lease, *named]
        # By the environment: what is on a command line is seen by everybody on the machine.
        os.execve(sys.executable, command, os.environ | {"TIMERD_OUTBOX_DATABASE": address})


def address_of(settings: dict[str, Any], vendor: str) -> str:
    """As `--database` takes it. Raises CommandError."""
    if vendor == "sqlite":
        return f"sqlite:///{settings['NAME']}"
    if vendor == "mysql":
        return _mysql_address_of(settings)
    if vendor != "postgresql":
        raise CommandError(f"timerd's outbox is for PostgreSQL, MySQL, MariaDB and SQLite, not {vendor}.")
    parts = {name: settings.get(name.upper()) or "" for name in ("host", "port", "user", "password")}
    options = settings.get("OPTIONS") or {}
    if "service" in options:
        raise CommandError(
            "The database is named by a service, which timerd's outbox does not read: set HOST and NAME."
        )
    parts |= {name: str(options[name]) for name in _PASSED_ON if name in options}
    query = urlencode({name: value for name, value in parts.items() if value})
    return f"postgresql:///{quote(str(settings['NAME']))}" + (f"?{query}" if query else "")


def _mysql_address_of(settings: dict[str, Any]) -> str:
    """A HOST that begins with a slash is a socket, as Django reads it."""
    host, options = str(settings.get("HOST") or ""), settings.get("OPTIONS") or {}
    query = {"unix_socket": host} if host.startswith("/") else {}
    query |= {name: str(options[name]) for name in ("read_default_file",) if name in options}
    query |= {"ssl_ca": str(options["ssl"]["ca"])} if options.get("ssl", {}).get("ca") else {}
    user, password = (quote(str(settings.get(name) or ""), safe="") for name in ("USER", "PASSWORD"))
    port = f":{settings['PORT']}" if settings.get("PORT") else ""
    where = "" if host.startswith("/") else f"{host or '127.0.0.1'}{port}"
    who = f"{user}:{password}@" if password else f"{user}@" if user else ""
    return f"mysql://{who}{where}/{quote(str(settings['NAME']))}" + (f"?{urlencode(query)}" if query else "")
