"""Keys of many rows as columns: a call names a thousand tasks, and an object for each of them is made only where
somebody looks at one by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from timerd.model.identity import DELIVERY_ID_BYTES, DIGEST_BYTES, PREFIX_BYTES, RowKey, delivery_id_of, row_keys

Positions = npt.NDArray[np.int64]
# (n,) of V16.
Digests = npt.NDArray[np.void]
_DIGEST = np.dtype(f"V{DIGEST_BYTES}")
_PREFIX = np.dtype([("prefix", f"V{PREFIX_BYTES}"), ("index", ">u4")])
_DELIVERY_ID = np.dtype([("digest", _DIGEST), ("generation", f"V{DELIVERY_ID_BYTES - DIGEST_BYTES}")])


class RowKeys(Sequence[RowKey]):
    """All of version 0: rows as they were first written."""

    __slots__ = ("_listed", "digests", "positions_ms")

    def __init__(self, positions_ms: Positions, digests: Digests) -> None:
        self.positions_ms = positions_ms
        self.digests = digests
        self._listed: list[RowKey] | None = None

    @classmethod
    def of(cls, keys: Sequence[RowKey]) -> RowKeys:
        positions_ms = np.array([key.position_ms for key in keys], np.int64)
        return cls(positions_ms, np.frombuffer(b"".join([key.digest for key in keys]), _DIGEST))

    def __len__(self) -> int:
        return len(self.positions_ms)

    def __iter__(self) -> Iterator[RowKey]:
        return iter(self._list())

    @overload
    def __getitem__(self, at: int) -> RowKey: ...
    @overload
    def __getitem__(self, at: slice) -> list[RowKey]: ...
    def __getitem__(self, at: int | slice) -> RowKey | list[RowKey]:
        return self._list()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._list() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._list())

    def only(self, chosen: npt.NDArray[Any] | slice) -> RowKeys:
        """Those that are chosen, by their places or by a flag for each."""
        return RowKeys(self.positions_ms[chosen], self.digests[chosen])

    @property
    def places(self) -> Places:
        return Places(self.positions_ms, self.digests)

    def digest_list(self) -> list[bytes]:
        listed: list[bytes] = self.digests.tolist()
        return listed

    def delivery_ids(self) -> list[bytes]:
        ids = np.zeros(len(self), _DELIVERY_ID)
        ids["digest"] = self.digests
        listed: list[bytes] = ids.view(f"V{DELIVERY_ID_BYTES}").tolist()
        return listed

    def _list(self) -> list[RowKey]:
        if self._listed is None:
            self._listed = list(row_keys(self.positions_ms.tolist(), self.digest_list(), [0] * len(self)))
        return self._listed


class Places(Sequence[tuple[int, bytes]]):
    """(position_ms, digest) of rows."""

    __slots__ = ("digests", "positions_ms")

    def __init__(self, positions_ms: Positions, digests: Digests) -> None:
        self.positions_ms = positions_ms
        self.digests = digests

    def __len__(self) -> int:
        return len(self.positions_ms)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return zip(self.positions_ms.tolist(), self.digests.tolist(), strict=True)

    @overload
    def __getitem__(self, at: int) -> tuple[int, bytes]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[int, bytes]]: ...
    def __getitem__(self, at: int | slice) -> tuple[int, bytes] | list[tuple[int, bytes]]:
        return list(self)[at]


class TaskDigests(Sequence[bytes]):
    """Digests of many tasks, most of few messages."""

    __slots__ = ("digests",)

    def __init__(self, digests: Digests) -> None:
        self.digests = digests

    def __len__(self) -> int:
        return len(self.digests)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.digests.tolist())

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        listed: list[bytes] = self.digests.tolist()
        return listed[at]

    def prefixes(self) -> set[bytes]:
        prefixes = self.digests.view(_PREFIX)["prefix"]
        return {prefixes[0].tobytes()} if (prefixes == prefixes[0]).all() else set(prefixes.tolist())


def digests_of(keys: Sequence[RowKey]) -> list[bytes]:
    return keys.digest_list() if isinstance(keys, RowKeys) else [key.digest for key in keys]


def delivery_ids(keys: Sequence[RowKey]) -> list[bytes]:
    if isinstance(keys, RowKeys):
        return keys.delivery_ids()
    return [delivery_id_of(key.digest, key.version) for key in keys]


def span_of(keys: Sequence[RowKey]) -> tuple[int, int]:
    """The first and the last position; there is at least one."""
    if isinstance(keys, RowKeys):
        return int(keys.positions_ms.min()), int(keys.positions_ms.max())
    positions_ms = [key.position_ms for key in keys]
    return min(positions_ms), max(positions_ms)


def places_of(keys: Sequence[RowKey]) -> Sequence[tuple[int, bytes]]:
    return keys.places if isinstance(keys, RowKeys) else [(position_ms, digest) for position_ms, digest, _ in keys]


def only_of(keys: Sequence[RowKey], chosen: Sequence[bool]) -> Sequence[RowKey]:
    """Those with the flag."""
    if isinstance(keys, RowKeys):
        return keys.only(np.array(chosen, np.bool_))
    return list(compress(keys, chosen))
