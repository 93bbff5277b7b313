"""Files that are read again when they change: a pipe or a device can be read once at most, and opening one may wait
for ever."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from timerd.model.errors import StartupError

# None: a file is not there.
Stamp: TypeAlias = tuple[tuple[int, int, int], ...] | None


def stamp_of_files(paths: Iterable[Path]) -> Stamp:
    """Another one as soon as a file changes."""
    try:
        stats = [path.stat() for path in paths]
    except OSError:
        return None
    return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)


class WatchedFile:
    """A file as it was at the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = stamp_of_files([path])

    def has_changed(self) -> bool:
        """Whether it is another one since, or is not there."""
        before, self._seen = self._seen, stamp_of_files([self.path])
        return self._seen != before


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
