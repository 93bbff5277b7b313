"""Each row of a held partition is in exactly one state, and goes from one to another as the page says.

The whole protocol runs as in tests/property/test_partition_machine.py. Around each fact that a machine is told the
states of all rows that were ever stored are compared, and where each row lies is looked up in every container.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings

import style
from tests.property import world as world_module
from tests.property.service_model import HandedOn, ServiceModel, WithoutCursors
from tests.property.world import World, done
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.row_state import RowState
from timerd.model.identity import RowKey

PAGE = Path(__file__).parents[2] / "docs/understand/row-states.md"
# What a machine is told.
FACTS = (
    "settled_read", "page_read", "control_changed", "lose", "hint", "offer", "cancel", "cancel_all", "end_met",
    "suspend", "moves_read", "take", "end", "end_acked", "end_waiting", "put_back", "again", "again_waiting", "guard",
    "prolong", "join", "flush", "settled_written", "carried_written", "tick", "hand_over", "counted", "mark",
)  # fmt: skip
Change = tuple[str, str, str]
ALIVE = (RowState.WAITING, RowState.BLOCKED, RowState.PENDING)


def drawn() -> set[Change]:
    """The rows of the page's table: from, events, to."""
    text = PAGE.read_text(encoding="utf-8")
    lines = re.findall(r"^\| ([a-z, ]+) \| ((?:`\w+`(?:, )?)+) \| ([a-z, ]+) \|", text, re.MULTILINE)
    return {
        (before, event, after)
        for befores, events, afters in lines
        for before in befores.split(", ")
        for after in afters.split(", ")
        for event in re.findall(r"\w+", events)
    }


class Watch:
    """Compares the states of all rows of `world` around each fact. `seen`: each change."""

    def __init__(self) -> None:
        self.seen: set[Change] = set()
        self.world: World | None = None
        self._told = 0

    def keys(self, machine: PartitionMachine) -> list[RowKey]:
        """All rows that were ever stored in the machine's partition."""
        assert self.world is not None
        bucket_ms, end_ms = machine.partition.bucket_ms, machine.partition.end_ms
        page = done(self.world.store.scan(machine.partition, bucket_ms, end_ms, 0, 1 << 40, keys_only=True))
        return list(dict.fromkeys(key for group in page.groups for key in group.keys()))

    def told(self, event: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def tell(machine: PartitionMachine, *given: object, **more: object) -> object:
            if self.world is None or self._told:
                return real(machine, *given, **more)
            self._told += 1
            try:
                keys = self.keys(machine)
                before = [machine.state_of(key) for key in keys]
                said = real(machine, *given, **more)
                self._compare(machine, event, keys, before)
            finally:
                self._told -= 1
            return said

        return tell

    def _compare(self, machine: PartitionMachine, event: str, keys: list[RowKey], before: list[RowState]) -> None:
        for key, was in zip(keys, before, strict=True):
            state = machine.state_of(key)
            assert_lies_once(machine, key, state)
            if state is not was:
                self.seen.add((was.value, event, state.value))


def assert_lies_once(machine: PartitionMachine, key: RowKey, state: RowState) -> None:
    """The row lies in one place, and that is the place of its state."""
    rows, log = machine._table._rows, machine._table._log
    waits, is_kept = rows.waiting.has(key), rows.moves.has(key)
    is_open, is_copy = rows.open.key_of(key.digest) == key, key in rows.open.copies
    is_over = log.settled.get(key) is not None
    # One that ended while it waited lies there until it is met.
    lies = sum((waits or is_kept, is_open, is_copy, key in rows.left.foreign))
    assert not (waits and is_kept), key
    assert lies <= 1, (key, state)
    assert not (is_over and (is_open or is_copy)), (key, state)
    assert (state in ALIVE) == ((waits or is_kept) and not is_over), (key, state)
    assert (state is RowState.OPEN) == is_open, (key, state)
    assert (state is RowState.COPY) == is_copy, (key, state)
    assert (state in (RowState.ENDED, RowState.LEAVING)) == is_over, (key, state)
    assert (key in log.records.leaving) == (state is RowState.LEAVING), (key, state)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    facts = {event: watch.told(event, getattr(PartitionMachine, event)) for event in FACTS}
    machine = type("Watched", (PartitionMachine,), facts)
    with patch.object(world_module, "PartitionMachine", machine):
        yield


def run(model: type[ServiceModel], examples: int) -> Watch:
    watch = Watch()

    class Watched(model):  # type: ignore[valid-type,misc]
        def begun(self) -> None:
            watch.world = self.world

        def teardown(self) -> None:
            super().teardown()
            watch.world = None

    case = Watched.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=25, deadline=None, derandomize=True)
    with watched(watch):
        case("runTest").runTest()
    return watch


@pytest.mark.parametrize(("model", "examples"), [(ServiceModel, 20), (HandedOn, 6), (WithoutCursors, 6)])
def test_each_row_is_in_one_state_and_changes_as_it_is_drawn(model: type[ServiceModel], examples: int) -> None:
    seen = run(model, examples).seen
    assert seen - drawn() == set()
    assert {("absent", "page_read", "waiting"), ("waiting", "take", "open"), ("open", "end", "ended")} <= seen


def test_the_page_names_states_events_and_containers_that_there_are() -> None:
    text, names = PAGE.read_text(encoding="utf-8"), {state.value for state in RowState}
    assert {each for before, _, after in drawn() for each in (before, after)} == names
    assert {event for _, event, _ in drawn()} <= set(FACTS)
    assert set(re.findall(r"^\| ([A-Z]+) \|", text, re.MULTILINE)) == {name.upper() for name in names}
    files = {name: ast.parse((style.ROOT / file).read_text(encoding="utf-8")) for file, name in style.HOLDERS.items()}
    containers = [each for name, tree in files.items() for each in style.containers(tree, name)]
    assert re.findall(r"^\| `(\w+)` \(\[", text, re.MULTILINE) == containers
