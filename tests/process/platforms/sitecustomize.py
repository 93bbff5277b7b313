"""Read by Python at its start, where its folder is in PYTHONPATH: takes away what another system does not have.

TIMERD_TEST_PLATFORM says which: `darwin` for a server, `win32` for whoever only calls one.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

LINUX_ONLY = {
    os: ("eventfd", "memfd_create", "pidfd_open", "pipe2", "posix_fadvise", "sched_getaffinity", "timerfd_create"),
    select: ("epoll",),
    signal: ("pidfd_send_signal",),
    time: ("CLOCK_BOOTTIME",),
}
# Of the C library.
GNU_ONLY = ("timerfd_create", "timerfd_settime", "malloc_trim", "mallopt")
POSIX_ONLY = {
    os: ("fork", "killpg", "register_at_fork", "statvfs", "fchmod", "setsid"),
    signal: ("SIGHUP", "SIGKILL", "pthread_sigmask", "SIGALRM"),
}
POSIX_MODULES = ("fcntl", "resource", "termios", "pty", "pwd", "grp")


def without(names: dict[ModuleType, tuple[str, ...]]) -> None:
    for module, absent in names.items():
        for name in absent:
            if hasattr(module, name):
                delattr(module, name)


class Library:
    """The C library of a Mac."""

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - one of ctypes
        self._library = library

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        if name in GNU_ONLY:
            raise AttributeError(name)
        return getattr(self._library, name)


def darwin() -> None:
    import resource
    import sysconfig

    # It would look for a file of that system's.
    sysconfig.get_config_vars()
    without(LINUX_ONLY)
    pydll, cdll, setrlimit = ctypes.PyDLL, ctypes.CDLL, resource.setrlimit
    ctypes.PyDLL = lambda *given, **named: Library(pydll(*given, **named))  # type: ignore[misc, assignment]
    ctypes.CDLL = lambda *given, **named: Library(cdll(*given, **named))  # type: ignore[misc, assignment]

    def refuse_many(which: int, limits: tuple[int, int]) -> None:
        if which == resource.RLIMIT_NOFILE and not 0 <= limits[0] <= 10_240:
            raise ValueError("current limit exceeds maximum limit")
        setrlimit(which, limits)

    resource.getrlimit = lambda _: (256, resource.RLIM_INFINITY)
    resource.setrlimit = refuse_many
    sys.platform = "darwin"


class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, _path: Sequence[str] | None, _target: object = None) -> None:
        if name in POSIX_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def win32() -> None:
    """What Python itself needs it has read by now."""
    import asyncio
    import subprocess  # noqa: F401
    import sysconfig
    import tempfile  # noqa: F401

    import typer  # noqa: F401

    sysconfig.get_config_vars()

    for name in POSIX_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    without(LINUX_ONLY)
    without(POSIX_ONLY)

    def no_signals(*_: object) -> None:
        raise NotImplementedError

    asyncio.SelectorEventLoop.add_signal_handler = no_signals  # type: ignore[method-assign, assignment]
    sys.platform = "win32"


WANTED = {"darwin": darwin, "win32": win32}
WANTED.get(os.environ.get("TIMERD_TEST_PLATFORM", ""), lambda: None)()
