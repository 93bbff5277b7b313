"""Each connection is an open file, and shells start programs with as few as 1,024: fewer than the streams that a server
allows."""

from __future__ import annotations

import resource


def allow_open_files() -> None:
    """As many as the system lets this process have without asking anybody."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
