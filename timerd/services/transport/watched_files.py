"""Files that are read again when they change: a pipe or a device can be read once at most, and opening one may wait
for ever."""

from __future__ import annotations

from pathlib import Path

from timerd.model.errors import StartupError


def read_watched(path: Path, what: str) -> bytes:
    """The content of a regular file. Raises StartupError with a sentence that calls it `what`."""
    try:
        if path.exists() and not path.is_file():
            raise StartupError(
                f"The {what} {path} is no regular file: it is read again when it changes, so name a file, not a folder "
                "or a pipe."
            )
        return path.read_bytes()
    except OSError as error:
        raise StartupError(f"Cannot read the {what} {path}: {error.strerror}.") from error
