"""The signing secrets of a target: a file with a line for each, the newest first, read again when it changes.

    # since the 3rd
    whsec_NEW...
    whsec_OLD...

To change a secret, add the new one as the first line, tell the receiver, and remove the old line when the receiver has
the new one. Until then each request has a signature by either.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from timerd.core.webhooks.signing import parse_secret
from timerd.model.errors import StartupError
from timerd.services.transport.watched_files import WatchedFile, read_watched

_log = logging.getLogger("timerd.webhooks")


class SecretFile:
    """`keys`: those in force, as of the last `refresh`. Raises StartupError where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path)
        self.keys: Sequence[bytes] = read_secrets(path)

    def refresh(self) -> None:
        """Takes the file up where it is another one."""
        if not self._file.has_changed():
            return
        try:
            self.keys = read_secrets(self._file.path)
        except StartupError as error:
            _log.error("The secrets changed and are not taken up; the old ones stay in force. %s", error)
        else:
            _log.info("%d secrets were taken up anew from %s", len(self.keys), self._file.path)


def read_secrets(path: Path) -> Sequence[bytes]:
    """Raises StartupError, which names the line and repeats nothing of it."""
    try:
        lines = read_watched(path, "file of webhook secrets").decode().splitlines()
    except UnicodeDecodeError as error:
        raise StartupError(f"The file of webhook secrets {path} is not UTF-8.") from error
    keys: list[bytes] = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            keys.append(parse_secret(text))
        except ValueError as error:
            raise StartupError(f"{path}, line {number}: {error}.") from None
    if not keys:
        raise StartupError(f"{path} holds no secret: write whsec_ and base64 on a line, the newest first.")
    return keys
