"""A run in fewer bytes gives the rows that it was made of, whichever of their columns differ."""

from __future__ import annotations

import random

import numpy as np
import pytest

from timerd.core.due_queue.due_queue import LARGEST_MERGE_ROWS, DueQueue
from timerd.core.due_queue.lean_run import LeanRun, lean, run_bytes
from timerd.core.due_queue.waiting_bytes import waiting_bytes
from timerd.core.taken import QueueKey
from timerd.core.urgency import Urgency
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Extra, Template

START_MS = 1_800_000_000_000
QUEUE = QueueKey("default", "mail")
KINDS = [Template(*QUEUE), Template(*QUEUE, labels=(("a", "b"),))]
EXTRAS = [Extra.from_json({"key": f"flight {n}"}) for n in range(3)]


def group(count: int, seed: int) -> RowGroup:
    """Sorted; each column is the same in all rows or not, as chance wants it."""
    chance = np.random.default_rng(seed)
    columns = np.zeros(count, ROW)
    columns["position_ms"] = START_MS + np.sort(chance.integers(0, 300_000, count))
    columns["fire_at_ms"] = columns["position_ms"] - chance.integers(0, 2) * chance.integers(0, 90, count)
    columns["length"], columns["offset"] = 4, 4 * chance.permutation(count)
    most = {"prefix": 3, "index": 1_000, "version": 1 << 20, "template": 2, "extra": 4, "flags": 8}
    for name, end in most.items():
        columns[name] = chance.integers(0, end, count if chance.random() < 0.5 else 1)
    return RowGroup(columns, np.frombuffer(b"prefix--%04d" * 3 % (1, 2, 3), PREFIX), KINDS, bytes(4 * count), EXTRAS, 7)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_out_of_it_is_what_was_put_in(seed: int) -> None:
    rows = group(50, seed)
    run = lean(rows)
    first = random.Random(seed).randrange(50)
    for which in (slice(None), slice(first, first + 7), slice(0), slice(0, 50, 3)):
        for found in (run.select(which), run.part(which).select(slice(None))):
            assert found == RowGroup(found.columns, *(rows.prefixes, KINDS, rows.payloads, EXTRAS, 7))
            assert found.columns.tolist() == rows.columns[which].tolist()
            assert found.columns.dtype == ROW


@pytest.mark.parametrize("seed", range(20))
def test_it_takes_no_more_than_what_it_was_made_of(seed: int) -> None:
    rows = group(50, seed)
    run = lean(rows)
    assert run.positions.nbytes + run.own.nbytes <= rows.columns.nbytes
    assert run_bytes(run) == waiting_bytes(rows) - rows.columns.nbytes + run.positions.nbytes + run.own.nbytes
    assert run_bytes(run.part(slice(10))) < run_bytes(run)


def plain(count: int) -> RowGroup:
    """As most are: of one template, due when they were asked for, with payloads of one length in order."""
    columns = np.zeros(count, ROW)
    columns["position_ms"] = columns["fire_at_ms"] = START_MS + np.arange(count)
    columns["index"], columns["prefix"] = np.arange(count), np.arange(count) % 3
    columns["offset"], columns["length"] = 4 * np.arange(count), 4
    return RowGroup(columns, np.frombuffer(b"prefix--%04d" * 3 % (1, 2, 3), PREFIX), KINDS[:1], bytes(4 * count), [])


def test_most_rows_take_twenty_bytes_beside_their_payload() -> None:
    rows = plain(LARGEST_MERGE_ROWS)
    due = DueQueue()
    due.add(rows)
    assert due.size_bytes == (20 + 4) * len(rows)
    assert run_bytes(lean(rows)) == due.size_bytes


def test_what_leaves_soon_stays_as_it_is() -> None:
    rows = plain(LARGEST_MERGE_ROWS)
    due = DueQueue()
    due.add(rows, for_now=True)
    assert due.size_bytes == (ROW.itemsize + 4) * len(rows)


def test_what_a_cut_leaves_is_as_small() -> None:
    due = DueQueue()
    due.add(plain(LARGEST_MERGE_ROWS))
    kept = LARGEST_MERGE_ROWS // 4
    assert due.cut(QUEUE, START_MS + kept, 0) == LARGEST_MERGE_ROWS - kept
    assert due.size_bytes == (20 + 4) * kept
    due.tidy()
    due.check()
    assert due.size_bytes == (20 + 4) * kept
    assert isinstance(due._lanes[QUEUE].heaps[Urgency(0)][0][2].run, LeanRun)
