"""The keys of an identity provider in a file, which is read again when it changes."""

from __future__ import annotations

import logging
from pathlib import Path

from timerd.model.errors import StartupError
from timerd.services.transport.watched_files import WatchedFile, read_watched

log = logging.getLogger(__name__)
_WHAT = "file of JWT keys"


class KeyFile:
    """Implements ports.KeySource. Raises StartupError where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path)
        self._unread: bytes | None = read_watched(path, _WHAT)

    async def changed(self, *, is_missing: bool) -> bytes | None:
        """As of now; a file that cannot be read is as if it had not changed."""
        raw, self._unread = self._unread, None
        if not self._file.has_changed():
            return raw
        try:
            return read_watched(self._file.path, _WHAT)
        except StartupError as error:
            log.error("The JWT keys changed and are not taken up; the old ones stay in force. %s", error)
            return raw


__all__ = ["KeyFile"]
