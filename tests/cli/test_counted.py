"""How many there are is said in one place, so nobody reads of 1 tasks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import timerd
from timerd.model.counted import counted

FOLDERS = ("commands", "services/engine")
# A count before a noun in the plural.
BARE = re.compile(r"\{[^{}]*:,\} [a-z ]*s\b")
ALWAYS_MANY = "{MAX_PAYLOAD_BYTES:,} bytes"


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 tasks were"), (1, "1 task was"), (2, "2 tasks were"), (12_345, "12,345 tasks were")]
)
def test_one_is_not_many(count: int, said: str) -> None:
    assert counted(count, "task", "were") == said
    assert counted(count, "dead letter").endswith("letter" if count == 1 else "letters")
    assert counted(2, "batch") == "2 batches"


def test_no_sentence_counts_by_itself() -> None:
    files = [file for folder in FOLDERS for file in Path(timerd.__file__).parent.joinpath(folder).glob("*.py")]
    assert len(files) > len(FOLDERS)
    assert {found for file in files for found in BARE.findall(file.read_text())} == {ALWAYS_MANY}
