"""What a repeat of a message is answered with: when its tasks are placed and when they fire, as it was the first time.
A delay counts from the first time that it was asked for.

Instants differ in their last bytes only, so they are kept as columns are: two or four bytes a task, in a tenth of the
time that a compressor takes.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from timerd.model.columns import pack_numbers, unpack_numbers

Times = npt.NDArray[np.int64]
# First byte: fire times follow that are not the positions; how the times are written. Without a form they are
# compressed, as all were before.
_MOVED, _PLAIN, _NARROW = 1, 2, 4
# So few are written as they are.
_PLAIN_BYTES = 64


def first_reply(positions_ms: Times, asked_ms: Times) -> bytes:
    """(n,) each, in the order of the tasks in the message."""
    is_moved = positions_ms is not asked_ms and positions_ms.tobytes() != asked_ms.tobytes()
    columns = (positions_ms, asked_ms) if is_moved else (positions_ms,)
    if positions_ms.nbytes * len(columns) <= _PLAIN_BYTES:
        return bytes((is_moved | _PLAIN,)) + b"".join([column.tobytes() for column in columns])
    count = len(positions_ms).to_bytes(4, "little")
    return bytes((is_moved | _NARROW,)) + count + b"".join(map(pack_numbers, columns))


def read_reply(reply: bytes) -> tuple[Times, Times]:
    """(positions, fire times) of the first time."""
    is_moved = reply[0] & _MOVED
    if reply[0] & _NARROW:
        count = int.from_bytes(reply[1:5], "little")
        positions_ms, at = unpack_numbers(reply, 5, count)
        return positions_ms, unpack_numbers(reply, at, count)[0] if is_moved else positions_ms
    raw = reply[1:] if reply[0] & _PLAIN else zlib.decompress(reply[1:])
    times = np.frombuffer(raw, np.int64)
    return (times[: len(times) // 2], times[len(times) // 2 :]) if is_moved else (times, times)
