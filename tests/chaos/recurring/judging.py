"""S1, S2, S3 and S5 by what callers were answered and workers have received. Each finding is a sentence.

- S1: where each instant has a task that never expires, it came; else the counts of a pause say what became of each.
- S2: an instant has one task. A delivery may come again (G5).
- S3: what fires is of the version that was in force then, unless the answer to a change says that it had started.
- S5: no task begins before the one before was through. What comes again after that is of a stale holder: its token is
  lower than one that was seen before (G6).

A trigger is one more task: those that came are those that callers were told of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from tests.chaos.recurring.lives import Life, Lives, Look, Span, lives_of
from tests.chaos.recurring.plan import Planned
from tests.chaos.recurring.records import OK, Begun, Call, Ended, Logs

# A clock says whole milliseconds.
EARLY_MS = 1
_OPEN = "FAILED_PRECONDITION"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`wrong`: by promise, what broke it. `again`: deliveries that came once more; `stale`: those of them by a lower
    token; `taken`: instants that had started before a change."""

    occurrences: int
    triggers: int
    again: int
    stale: int
    taken: int
    skipped: int
    lives: int
    calls: Mapping[str, int]
    refused_triggers: int
    repeated: int
    wrong: Mapping[str, Sequence[str]]

    @property
    def holds(self) -> bool:
        return not any(self.wrong.values())


def judged(plan: Iterable[Planned], logs: Logs, end_ms: float) -> Verdict:
    """`end_ms`: what fires later is not asked for."""
    lives = lives_of(plan, logs.calls)
    begun: defaultdict[tuple[str, int], list[Begun]] = defaultdict(list)
    for each in sorted(logs.begun, key=lambda each: each.at_ms):
        begun[each.schedule_id, each.life].append(each)
    stale = stale_of(logs.begun)
    through = _through(logs.ended)
    wrong: defaultdict[str, list[str]] = defaultdict(list)
    wrong["answers"] += answers(logs.calls)
    wrong["G4, never early"] += early(logs.begun)
    for key, came in begun.items():
        if key not in lives:
            wrong["S3, at one moment"].append(f"{key[0]} (life {key[1]}) had {len(came)} tasks, and was never created")
    for key, life in lives.items():
        came = begun[key]
        instants = [each for each in came if not each.is_trigger]
        wrong["S1, each instant"] += [*lost(life, instants, end_ms), *miscounted(life, instants)]
        wrong["S2, once"] += doubled(life, instants)
        wrong["S3, at one moment"] += misplaced(life, instants)
        wrong["S5, apart"] += together(life, came, through, stale)
        wrong["triggers"] += triggered(life, came)
    return _verdict(logs, lives, stale, wrong)


def _verdict(logs: Logs, lives: Lives, stale: set[Begun], wrong: Mapping[str, Sequence[str]]) -> Verdict:
    tasks = {(each.task_id, each.is_trigger) for each in logs.begun}
    answered = [call for call in logs.calls if call.outcome == OK and not call.said_again]
    verbs = sorted({call.verb for call in answered})
    first = {(each.delivery_id, each.attempt) for each in logs.begun}
    return Verdict(
        occurrences=sum(not is_trigger for _, is_trigger in tasks),
        triggers=sum(is_trigger for _, is_trigger in tasks),
        again=len(logs.begun) - len(first),
        stale=len(stale),
        taken=sum(len(life.taken) for life in lives.values()),
        skipped=sum(life.looks[-1].counts.skipped for life in lives.values() if life.looks),
        lives=len(lives),
        calls={verb: sum(call.verb == verb for call in answered) for verb in verbs},
        refused_triggers=sum(call.verb == "trigger" and call.outcome != OK for call in logs.calls),
        repeated=sum(call.tries > 1 for call in logs.calls),
        wrong={promise: list(sentences) for promise, sentences in wrong.items()},
    )


def stale_of(begun: Iterable[Begun]) -> set[Begun]:
    highest: defaultdict[str, int] = defaultdict(int)
    found = set()
    for each in sorted(begun, key=lambda each: each.at_ms):
        if each.token < highest[each.scope]:
            found.add(each)
        highest[each.scope] = max(highest[each.scope], each.token)
    return found


def _through(ended: Iterable[Ended]) -> dict[str, float]:
    """When a task was worked for the first time, to its end."""
    found: dict[str, float] = {}
    for each in sorted(ended, key=lambda each: each.at_ms):
        found.setdefault(each.task_id, each.at_ms)
    return found


# -- calls ------------------------------------------------------------------------------------------------------------


def answers(calls: Iterable[Call]) -> Iterator[str]:
    """One caller after the other asks, so nothing is refused, but for a trigger beside an open task."""
    for call in calls:
        what = f"{call.verb} of {call.schedule_id} (life {call.life})"
        is_refused_trigger = call.verb == "trigger" and call.outcome.startswith(_OPEN)
        if call.outcome != OK and not is_refused_trigger:
            yield f"{what} was answered {call.outcome}"
        if call.said_again:
            yield f"{what} was answered {call.said_again}"


def triggered(life: Life, came: Iterable[Begun]) -> Iterator[str]:
    there = {each.task_id for each in came if each.is_trigger}
    yield from (f"{life.name}: the trigger {each} never came" for each in sorted(life.triggers - there))
    if not life.has_late_trigger:
        yield from (f"{life.name}: nobody was told of the trigger {each}" for each in sorted(there - life.triggers))


# -- instants ---------------------------------------------------------------------------------------------------------


def lost(life: Life, instants: Sequence[Begun], end_ms: float) -> Iterator[str]:
    """S1, where each has a task that comes; with a `max_count` the first so many."""
    if not life.planned.is_exact:
        return
    there, most = {each.instant_ms for each in instants}, life.planned.max_count
    missing = [each for each in life.musts(end_ms) if each not in there]
    if most and len(there) >= most:
        # Those that are left come behind all that are there.
        missing = [each for each in missing if each < max(there)]
    yield from (f"{life.name}: {each} is lost" for each in missing)
    if most and len(there) > most:
        yield f"{life.name}: {len(there)} tasks, and {most} are allowed"


def miscounted(life: Life, instants: Sequence[Begun]) -> Iterator[str]:
    """S1, wherever it was paused: created + missed + skipped + waiting is the number of instants up to there."""
    for look in life.looks:
        least, most = _instants_until(life, look)
        said = look.counts.instants
        if life.planned.max_count:
            least, most = min(least, life.planned.max_count), min(most, life.planned.max_count)
        if not least <= said <= most:
            yield f"{life.name}: {said} instants are counted at {look.at_ms}, {least} to {most} were ({look.counts})"
        yield from _not_delivered(life, look, instants)


def _instants_until(life: Life, look: Look) -> tuple[int, int]:
    """At least, and at most: where one fires within its jitter, and when a life began, is not known."""
    possible = {each for each in life.named(look.at_ms) if life.may(each)} | look.taken
    return len({*life.musts(look.at_ms)} | look.taken), len(possible)


def _not_delivered(life: Life, look: Look, instants: Sequence[Begun]) -> Iterator[str]:
    """What is created comes, unless it may expire; what waits may be created later."""
    came = {each.instant_ms for each in instants if each.fire_at_ms <= look.at_ms or each.instant_ms in look.taken}
    created, waiting = look.counts.created, look.counts.waiting
    least = 0 if life.planned.catch_up == "latest" else created
    if not least <= len(came) <= created + waiting:
        yield f"{life.name}: {len(came)} tasks came of those up to {look.at_ms}, and {look.counts}"


def doubled(life: Life, instants: Iterable[Begun]) -> Iterator[str]:
    tasks: defaultdict[int, set[str]] = defaultdict(set)
    for each in instants:
        tasks[each.instant_ms].add(each.task_id)
    for instant_ms, ids in sorted(tasks.items()):
        if len(ids) > 1:
            yield f"{life.name}: {instant_ms} has {len(ids)} tasks, {', '.join(sorted(ids))}"


def misplaced(life: Life, instants: Iterable[Begun]) -> Iterator[str]:
    """S3: each of the version that was in force when it was to fire."""
    for each in instants:
        if life.taken.get(each.instant_ms) == each.version:
            continue
        where, span = f"{life.name}: {each.instant_ms}, to fire at {each.fire_at_ms}", life.at(each.fire_at_ms)
        if span is None or not span.seconds:
            yield f"{where}, came of version {each.version}, and nothing was in force then"
        elif span.version != each.version and not (has_waited(life, each, span) and span.version < each.version):
            yield f"{where}, came of version {each.version}, and {span.version} was in force then"
        elif not life.may(each.instant_ms):
            yield f"{where}, is no instant of version {each.version}"
        elif each.instant_ms in life.taken:
            yield f"{where}, came of version {each.version}, and had started before"


def has_waited(life: Life, each: Begun, span: Span) -> bool:
    """For the end of the one before: then it is made by what is in force at that, and begins after the change. Only a
    wait of more than a second is a reason that is told."""
    return life.planned.overlap.startswith("buffer") and each.at_ms >= span.end_ms


def early(begun: Iterable[Begun]) -> Iterator[str]:
    for each in begun:
        if each.at_ms < each.fire_at_ms - EARLY_MS:
            yield f"{each.schedule_id}: {each.instant_ms} came {each.fire_at_ms - each.at_ms:.1f} ms early"


def together(life: Life, came: Iterable[Begun], through: Mapping[str, float], stale: set[Begun]) -> Iterator[str]:
    """S5."""
    if life.planned.overlap == "allow":
        return
    tasks: defaultdict[str, list[Begun]] = defaultdict(list)
    for each in came:
        tasks[each.task_id].append(each)
    inorder = sorted(tasks.values(), key=lambda some: some[0].at_ms)
    for one, other in pairwise(inorder):
        began_ms, where = other[0].at_ms, f"{life.name}: {other[0].instant_ms}"
        if began_ms < through.get(one[0].task_id, inf):
            yield f"{where} began before {one[0].instant_ms} was through"
        later = [each for each in one if each.at_ms > began_ms and each not in stale]
        yield from (f"{where} began before attempt {each.attempt} of {each.instant_ms}" for each in later)
