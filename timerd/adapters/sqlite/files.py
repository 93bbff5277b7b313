"""The data directory: readable by its owner only, and one process at a time.

The lock is the kernel's (flock on a file beside the database), so it ends with the process however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from timerd.model.errors import StartupError

DATABASE = "timerd.db"
LOCK = "timerd.lock"


class DataDirectory:
    """Locked from construction to `close`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = path / DATABASE
        try:
            _make_private(path)
            self._lock = _open_private(path / LOCK)
        except OSError as error:
            raise StartupError(
                f"The data directory {path} cannot be used: {error.strerror}. "
                "It must be a directory that this user may write to; name another one with --data."
            ) from error
        self._acquire()
        try:
            os.close(_open_private(self.database))
        except OSError as error:
            self.close()
            raise StartupError(
                f"The data file {self.database} cannot be opened: {error.strerror}. This user must own it."
            ) from error

    def _acquire(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._lock)
            raise StartupError(
                f"The data directory {self.path} is in use by the process with pid {holder}. "
                "One server owns it at a time: stop that one, or name another directory with --data."
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, b"%d\n" % os.getpid(), 0)

    def used_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.path.glob(f"{DATABASE}*"))

    def free_bytes(self) -> int:
        disk = os.statvfs(self.path)
        return disk.f_bavail * disk.f_frsize

    def close(self) -> None:
        os.close(self._lock)


def sync(handle: int) -> None:
    """What was written is on the disk when this returns. macOS has a word of its own for that; some of its file systems
    do not know it."""
    full: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with contextlib.suppress(OSError):
            fcntl.fcntl(handle, full)
            return
    os.fsync(handle)


def _make_private(path: Path) -> None:
    """Only a directory that is made here is restricted: another may have its own reasons for its mode."""
    if not path.is_dir():
        path.mkdir(parents=True)
        path.chmod(0o700)


def _open_private(path: Path) -> int:
    """SQLite gives the files beside the database the mode of the database."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(handle, 0o600)
    return handle
