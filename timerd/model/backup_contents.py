"""What a copy of the data holds, as it was checked."""

from __future__ import annotations

from typing import NamedTuple

from timerd.model.registers import Control


class BackupContents(NamedTuple):
    """`rows`: of all row groups, ended or not. `controls`: the control rows, for the ledger."""

    schema_version: int
    size_bytes: int
    rows: int
    dead_letters: int
    controls: tuple[Control, ...]
