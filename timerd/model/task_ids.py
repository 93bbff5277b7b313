"""Ids of many tasks as columns, as they come in one message."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from timerd.model.identity import FORMAT, MAC_BYTES, PREFIX_BYTES, TASK_ID_BYTES, TaskId
from timerd.model.row_keys import RowKeys

ID = np.dtype(
    [
        ("format", "u1"),
        ("position_ms", ">i8"),
        ("shard", ">u2"),
        ("scope", ">u8"),
        ("priority", "u1"),
        ("prefix", f"V{PREFIX_BYTES}"),
        ("item", ">u4"),
        ("mac", f"V{MAC_BYTES}"),
        # What the missing padding of base64 adds; no part of the id.
        ("fill", "u1"),
    ]
)
_TEXT_CHARS = -(-TASK_ID_BYTES * 4 // 3)
_DIGEST = np.dtype([("prefix", f"V{PREFIX_BYTES}"), ("item", ">u4")])


class TaskIds(Sequence[TaskId]):
    """`columns` (n,) of ID; a TaskId is made where somebody looks at one by itself."""

    def __init__(self, columns: npt.NDArray[Any]) -> None:
        self.columns = columns
        self.positions_ms = columns["position_ms"].astype(np.int64)
        self._listed: list[TaskId] | None = None

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[TaskId]:
        return iter(self._list())

    @overload
    def __getitem__(self, at: int) -> TaskId: ...
    @overload
    def __getitem__(self, at: slice) -> list[TaskId]: ...
    def __getitem__(self, at: int | slice) -> TaskId | list[TaskId]:
        return self._list()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._list() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def row_keys(self) -> RowKeys:
        """Of the rows that they were first written as."""
        digests = np.empty(len(self), _DIGEST)
        digests["prefix"], digests["item"] = self.columns["prefix"], self.columns["item"]
        return RowKeys(self.positions_ms, digests.view(f"V{_DIGEST.itemsize}"))

    def _list(self) -> list[TaskId]:
        if self._listed is None:
            fields = (self.columns[name].tolist() for name in TaskId._fields)
            self._listed = list(map(TaskId._make, zip(*fields, strict=True)))
        return self._listed


def texts_of(columns: npt.NDArray[Any]) -> list[str]:
    """Of ids whose format and fill are not set: each as `str` of a TaskId."""
    columns["format"], columns["fill"] = FORMAT, 0
    text = base64.urlsafe_b64encode(columns.tobytes()).decode()
    # With the fill each is a character longer, and none has padding.
    width = _TEXT_CHARS + 1
    return [text[at : at + _TEXT_CHARS] for at in range(0, len(text), width)]
