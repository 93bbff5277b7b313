"""What the signals of the system ask of a server.

SIGTERM and SIGINT: to stop in order. SIGHUP has two meanings. Sent by somebody, it asks a service to look at its files
anew. Sent because the terminal of the server has gone, it asks the server to go as well; nohup keeps it away from that.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

_STANDARD = (0, 1, 2)


def hear_signals(stop: Callable[[], None], refresh: Callable[[], None]) -> None:
    """From now on, in the running loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return
    terminal = [file for file in _STANDARD if os.isatty(file)]

    def hung_up() -> None:
        if terminal and not any(map(os.isatty, terminal)):
            _forget(terminal)
            stop()
        else:
            refresh()

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def _forget(terminal: list[int]) -> None:
    """What is written to one that has gone fails."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for file in terminal:
        os.dup2(nowhere, file)
    os.close(nowhere)
