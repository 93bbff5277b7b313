"""The file of streams: a TOML table for each queue whose tasks are appended to a Redis stream.

[orders]
url = "redis://127.0.0.1:6379"
stream = "orders"
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from timerd.config import StreamsConfig
from timerd.core.taken import QueueKey
from timerd.model.errors import StartupError
from timerd.model.streams import StreamTarget
from timerd.services.sinks.target_table import TargetTable, check_each_once, target_tables
from timerd.services.transport.watched_files import read_watched

MOST_IN_FLIGHT = 100_000
MOST_LENGTH = 10**12
MOST_TIMEOUT_S = 600
MOST_REPEATS_KNOWN_S = 30 * 86_400
_SCHEMES = ("redis", "rediss", "unix")
_KEYS = (
    *("queue", "namespace", "url", "stream", "user", "password_file", "max_length", "repeats_known_s", "in_flight"),
    "timeout_s",
)


def read_streams(config: StreamsConfig) -> list[StreamTarget]:
    """Empty where no file is named. Raises StartupError, which says what is wrong and where."""
    path = config.targets_file
    if path is None:
        return []
    targets = [_target(table) for table in target_tables(path, "file of streams", _KEYS)]
    check_each_once(path, [QueueKey(each.namespace, each.queue) for each in targets])
    return targets


def read_password(path: str) -> str:
    """The first line of the file. Raises StartupError."""
    try:
        lines = read_watched(Path(path), "file of a stream's password").decode().splitlines()
    except UnicodeDecodeError as error:
        raise StartupError(f"{path} is no text in UTF-8: write the password as its first line.") from error
    if not lines or not lines[0].strip():
        raise StartupError(f"{path} has no password: write it as the first line.")
    return lines[0].strip()


def _target(table: TargetTable) -> StreamTarget:
    queue = table.queue()
    stream = table.text("stream", queue.queue)
    if not stream:
        raise table.wrong("stream is empty: write the key of the stream, or leave it out for the name of the queue")
    return StreamTarget(
        namespace=queue.namespace,
        queue=queue.queue,
        url=_url(table),
        stream=stream,
        user=table.text("user", ""),
        password_file=table.text("password_file", ""),
        max_length=table.whole_or_none("max_length", 0, MOST_LENGTH),
        repeats_known_s=table.whole_or_none("repeats_known_s", 3_600, MOST_REPEATS_KNOWN_S),
        in_flight=table.whole("in_flight", 1_000, MOST_IN_FLIGHT),
        timeout_ms=round(1_000 * table.number("timeout_s", 5, MOST_TIMEOUT_S)),
    )


def _url(table: TargetTable) -> str:
    """What is shown of a target holds no password."""
    url = table.text("url")
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in _SCHEMES and bool(parts.hostname or parts.scheme == "unix")
        has_password = parts.password is not None or parts.username is not None or "password=" in parts.query
    except ValueError:
        is_good = has_password = False
    if has_password:
        raise table.wrong("url has a user or a password in it: write them as user and password_file")
    if not is_good:
        raise table.wrong("url is no address of Redis: write redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH")
    return url
