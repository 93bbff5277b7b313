"""The loop of a child process: a JSON command per line on stdin, a JSON answer per line on stdout.

Load generator and worker live in processes of their own, so that no figure holds the interpreter lock of another.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from timerd.sdk.values import TimerdError

Answer = dict[str, Any]
Verb = Callable[..., Awaitable[Answer]]


async def obey(verbs: Mapping[str, Verb]) -> None:
    """Until stdin ends."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        try:
            answer = await verbs[command.pop("do")](**command)
        except TimerdError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
