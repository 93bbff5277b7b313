"""What the calls of cycles ask. A cycle is a schedule whose instants are its slots: its register, its ticks and its
changes are those of schedules."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.core.schedules.changes import Decide, Name
from timerd.core.schedules.member_tasks import CycleRun, SlotMember
from timerd.core.schedules.slot_costs import Cost, note_cost
from timerd.model.cycles import CycleShape, Turn, begin_ms, cost_key, instant_ms
from timerd.model.errors import Precondition
from timerd.model.instants import shown as shown_instant
from timerd.model.recurrence import Every, Spec
from timerd.model.schedules import CatchUp, Definition, Policies
from timerd.model.task import RetryPolicy, Template
from timerd.ports import Store
from timerd.services.holding.driving import Performs, drive
from timerd.services.schedules.filling import Filling
from timerd.services.schedules.schedules import ListPlace, Schedules, Shown

# Registers that are read together.
COSTS_AT_ONCE = 256
# The task of a slot never dies: it expires when its slot begins anew.
PATIENT = RetryPolicy(max_attempts=65_535, max_backoff_ms=60_000)


class Cycles:
    """Of one instance."""

    def __init__(self, schedules: Schedules, store: Store, runner: Performs) -> None:
        self._schedules = schedules
        self._store = store
        self._runner = runner
        self._filling = Filling(schedules.world, runner)

    async def create(self, name: Name, request: str, shape: CycleShape, slots: Template, labels: LabelPairs) -> Shown:
        """`slots`: of the tasks of slots."""
        return await self._schedules.create(name, request, _definition(shape, slots, labels))

    async def change(self, name: Name, request: str, revision: int, decide: Decide) -> Shown:
        return await self._schedules.change(name, request, revision, decide)

    async def get(self, name: Name) -> Shown:
        return await self._schedules.get(name)

    async def page(self, namespace: str, place: ListPlace, limit: int) -> tuple[list[Shown], ListPlace | None]:
        return await self._schedules.page(namespace, place, limit, "cycles")

    async def costs(self, shown: Shown) -> list[tuple[int, Cost]]:
        """By slot; those that were filled."""
        slots, uid = range(shape_of(shown).slots), shown.entry.uid
        stored: list[bytes | None] = []
        for start in range(0, len(slots), COSTS_AT_ONCE):
            keys = [cost_key(uid, slot) for slot in slots[start : start + COSTS_AT_ONCE]]
            stored += await self._store.read(keys)
        return [(slot, Cost.from_bytes(each)) for slot, each in enumerate(stored) if each is not None]

    async def fill(self, shown: Shown, turn: Turn, members: Sequence[SlotMember], place: int = 0) -> None:
        """Raises Precondition where the slot has not begun, or has its next turn already."""
        shape, entry = shape_of(shown), shown.entry
        check_turn(shown, turn, self._schedules.world.now_ms())
        cycle = CycleRun(entry.uid, shape, turn.cycle, place=place)
        await self._filling.fill(cycle, members)
        await drive(note_cost(cycle, turn.slot, members), self._runner)


LabelPairs = tuple[tuple[str, str], ...]


def _definition(shape: CycleShape, slots: Template, labels: LabelPairs) -> Definition:
    """After an outage each slot of the last period comes once, so each member has at most one turn too late."""
    spec = Spec((Every(shape.slot_ms, shape.origin_ms - shape.lead_ms),))
    policies = Policies(CatchUp.ALL, shape.period_ms, shape.slots)
    return Definition(spec, policies, slots, labels=labels, cycle=shape)


def shape_of(shown: Shown) -> CycleShape:
    assert shown.definition.cycle is not None
    return shown.definition.cycle


def check_turn(shown: Shown, turn: Turn, now_ms: int) -> None:
    """Raises Precondition."""
    shape = shape_of(shown)
    at_ms = begin_ms(shape, turn)
    if instant_ms(shape, turn) > shown.entry.cur_ms:
        raise Precondition(
            f"Slot {turn.slot} of cycle {turn.cycle} begins at {shown_instant(at_ms)}, and has no task yet: fill a "
            "slot with what its task says.",
            "SLOT_TO_COME",
            field="cycle",
        )
    if at_ms + shape.period_ms <= now_ms:
        raise Precondition(
            f"Slot {turn.slot} of cycle {turn.cycle} began at {shown_instant(at_ms)}, and has its next turn: leave "
            "this one out.",
            "SLOT_OVER",
            field="cycle",
        )
