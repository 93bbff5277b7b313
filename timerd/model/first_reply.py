"""What a repeat of a message is answered with: when its tasks are placed and when they fire, as it was the first time.
A delay counts from the first time that it was asked for.

Instants differ in their last bytes only, so they are kept as columns are: two or four bytes a task, in a tenth of the
time that a compressor takes.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
import numpy.typing as npt

from timerd.model.columns import pack_numbers, unpack_numbers

Times = npt.NDArray[np.int64]
# First byte: fire times follow that are not the positions; how the times are written; the places of the tasks in the
# request come at the end. Without a form the times are compressed, as all were before.
_MOVED, _PLAIN, _NARROW, _INDEXED = 1, 2, 4, 8
# So few are written as they are.
_PLAIN_BYTES = 64
_ONE = struct.Struct("<Bq")


def first_reply(positions_ms: Times, asked_ms: Times, indexes: npt.NDArray[np.uint32]) -> bytes:
    """(n,) each, in the order of the tasks in the message. `indexes`: their places in the request, ascending."""
    is_moved = positions_ms is not asked_ms and positions_ms.tobytes() != asked_ms.tobytes()
    columns = (positions_ms, asked_ms) if is_moved else (positions_ms,)
    some = len(indexes) > 0 and int(indexes[-1]) != len(indexes) - 1
    tail = indexes.astype("<u4").tobytes() if some else b""
    form = is_moved | (_INDEXED if some else 0)
    if positions_ms.nbytes * len(columns) <= _PLAIN_BYTES:
        return bytes((form | _PLAIN,)) + b"".join([column.tobytes() for column in columns]) + tail
    count = len(positions_ms).to_bytes(4, "little")
    return bytes((form | _NARROW,)) + count + b"".join(map(pack_numbers, columns)) + tail


def first_reply_of_one(position_ms: int) -> bytes:
    """As `first_reply` of a message of one task, which is due at its position. numpy's calls take ten times as long."""
    return _ONE.pack(_PLAIN, position_ms)


def read_reply(reply: bytes) -> tuple[Times, Times]:
    """(positions, fire times) of the first time."""
    is_moved = reply[0] & _MOVED
    if reply[0] & _NARROW:
        count = int.from_bytes(reply[1:5], "little")
        positions_ms, at = unpack_numbers(reply, 5, count)
        return positions_ms, unpack_numbers(reply, at, count)[0] if is_moved else positions_ms
    raw = reply[1:] if reply[0] & _PLAIN else zlib.decompress(reply[1:])
    if reply[0] & _INDEXED:
        # A time has eight bytes, and the place of its task four.
        size = len(raw) * (16 if is_moved else 8) // (20 if is_moved else 12)
        raw = raw[:size]
    times = np.frombuffer(raw, np.int64)
    return (times[: len(times) // 2], times[len(times) // 2 :]) if is_moved else (times, times)


def indexes_of(reply: bytes) -> npt.NDArray[np.uint32]:
    """The places in the request of the tasks that were stored the first time."""
    count = len(read_reply(reply)[0])
    if reply[0] & _INDEXED:
        return np.frombuffer(reply[-4 * count :], "<u4")
    return np.arange(count, dtype=np.uint32)
