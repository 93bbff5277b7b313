"""Histories of a cluster in which tokens of several low rates are needed for each start: of a queue, of its limit keys,
of limits that queues share, and of limits of each key.

Nothing befalls the instances but calls that take their time, and rules that change; always more is due than may start.
Judged is that all together start nearly what one server would, of each queue, that no key stands still, and that of
each rate never more starts than is promised (G20).
`python -m tests.simulator.cluster.drawn --seeds 100`; `--seed 7` shows one, `--variant` breaks a rule.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, cast
from unittest.mock import patch

from tests.property.world import done
from tests.simulator.asking import new_tasks
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.instance import Instance
from tests.simulator.cluster.rated import above
from tests.simulator.cluster.ruled import RuledInstance, RuledStory, Start
from tests.simulator.events import Wanted
from tests.simulator.judge import Verdict, noted
from tests.simulator.repeats import Repeats
from tests.simulator.story import told
from timerd.core.dispatch import Assignment
from timerd.core.regulation import DrawOrder, RuleLimits
from timerd.core.regulation.rate import RateLimit
from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, NamedLimit, limit_entry, limit_key
from timerd.model.regulations import KeyRules, QueueLimit, Regulation, regulated_entry, regulation_key
from timerd.model.storage import Cas, Entry
from timerd.services.engine.verbs import NewTasks

# Before that the first instances find out who keeps what.
WARM_MS, LASTS_MS, STEP_MS = 15_000, 60_000, 50
AT_ONCE, LAG_MS = 10, 600_000
# No key stands still for as long as it would take on one server to start so many of it, and so much beside.
STILL_STARTS, STILL_MS = 6, 10_000


def rate(starts: int, seconds: int = 60) -> QueueLimit:
    return QueueLimit(0, starts, seconds * 1_000, 1)


class Ruled(NamedTuple):
    """A queue: its own rate, that of each of its keys, what it lists, and how many keys it has. `then`: what its own
    rate is changed to, one after the other, in the time that is judged; None: it is taken away."""

    own: QueueLimit | None = None
    keys: QueueLimit | None = None
    limits: tuple[str, ...] = ()
    customers: int = 1
    then: tuple[QueueLimit | None, ...] = ()

    def own_after(self, changes: int) -> QueueLimit | None:
        return (self.own, *self.then)[min(changes, len(self.then))]


class Form(NamedTuple):
    """Queues, and limits that all keys have together, or each for itself. Each queue starts at least `queue_part` of
    what it would on one server, and all together `whole_part`. `may_stand_still`: a key, for longer than is judged.
    Those that fall short of the others are told of in docs/use/regulation.md."""

    queues: Mapping[str, Ruled]
    limits: Mapping[str, QueueLimit] = {}
    keyed: Mapping[str, QueueLimit] = {}
    queue_part: float = 0.3
    whole_part: float = 0.9
    may_stand_still: bool = False


FORMS = {
    "two keys, and a queue that has less": Form({"a": Ruled(rate(30), rate(20), customers=2)}),
    "one key, and a queue that has more": Form({"a": Ruled(rate(30), rate(20))}),
    "many keys": Form({"a": Ruled(rate(30), rate(4), customers=10)}),
    "far more keys than it may start": Form({"a": Ruled(rate(30), rate(2), customers=40)}),
    "faster": Form({"a": Ruled(rate(2, 1), rate(40), customers=4)}),
    "a limit that a queue with keys shares": Form(
        {"a": Ruled(None, rate(20), ("post",)), "b": Ruled(None, None, ("post",))}, {"post": rate(30)}
    ),
    "a limit of each key that a queue with less shares": Form(
        {"a": Ruled(rate(10), None, ("account",)), "b": Ruled(None, None, ("account",))},
        {},
        {"account": rate(20)},
        queue_part=0.2,
        may_stand_still=True,
    ),
    "two limits of a queue": Form({"a": Ruled(rate(60), None, ("post",))}, {"post": rate(40)}),
    "rules that change": Form({"a": Ruled(rate(30), rate(20), (), 2, (rate(15), None, rate(30)))}),
    "a key with two rates": Form(
        {"a": Ruled(None, rate(30), ("account",), 2)}, {}, {"account": rate(20)}, whole_part=0.8
    ),
}


def form_of(seed: int) -> Form:
    return FORMS[[*FORMS][seed % len(FORMS)]]


def customer_of(name: str) -> str:
    """A name says its customer."""
    return name.partition(" ")[0]


class DrawnInstance(RuledInstance):
    def _starts(self, assignment: Assignment) -> None:
        """Of all queues."""
        rows = assignment.taken.rows
        for row in range(len(assignment.taken)):
            template = rows.template_of(row)
            self.starts.append(Start(self._loop.now_ms, self.name, 1, template.limit_key, template.queue))


class DrawnStory(RuledStory):
    instance_type: ClassVar[type[Instance]] = DrawnInstance

    def __post_init__(self) -> None:
        super().__post_init__()
        # Nothing is in the way, and all that is due is in memory.
        self.is_tight, self.shape, self.skew_ms = False, ClusterForm.ANY, 0
        self.weather.clear_up()
        self.replicas.clear_up()
        self.net.lost = self.net.hints_lost = 0.0
        self.config = replace(self.config, max_mark_lag_ms=LAG_MS, memory_budget_bytes=1 << 30)
        self.settings = replace(self.settings, max_mark_lag_ms=LAG_MS, mark_every_ms=1_000, max_settled=200_000)
        self.net.delays_ms = ((1, 5), (0,), (1, 5, 40))[self.seed // len(FORMS) % 3]
        form = form_of(self.seed)
        for limit, (queue_limit, is_keyed) in _limits(form).items():
            name, kept = LimitName("default", limit), NamedLimit(1, queue_limit)
            done(self.disk.write_entries([Entry(limit_entry(name), b"1")]))
            kept = kept.by_key(()) if is_keyed else kept
            done(self.disk.cas([Cas(limit_key(name), None, kept.to_bytes())]))
        for queue, ruled in form.queues.items():
            done(self.disk.write_entries([Entry(regulated_entry("default", queue), b"1")]))
            self._rule(queue, ruled, 1)

    def _rule(self, queue: str, ruled: Ruled, revision: int) -> Regulation:
        before = done(self.disk.read([regulation_key("default", queue)]))[0]
        keys = KeyRules(ruled.keys, share=1) if ruled.keys is not None else None
        rules = Regulation(revision, limit=ruled.own, limits=ruled.limits, keys=keys)
        done(self.disk.cas([Cas(regulation_key("default", queue), before, rules.to_bytes())]))
        return rules

    def _change(self, queue: str, ruled: Ruled, revision: int) -> None:
        """All instances hear of it at once, as from the one that changes it."""
        rules = self._rule(queue, ruled, revision)
        for instance in self.serving():
            assert instance.node is not None
            assert instance.node.regulating is not None
            instance.node.regulating.heard(QueueKey("default", queue), rules)

    def rules(self) -> Regulation:
        return Regulation(1)

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        tasks = super().tasks_of(request, names, wanted)
        return replace(tasks, rows=new_tasks(request, names, wanted, customer_of).rows)

    async def tell(self) -> None:
        self.loop.leap(self.begin_ms)
        await self._all_begin("abc")
        for instance in self.serving():
            for _ in range(2):
                self.hire(("ack",), ("a", "b"), 5_000).connect(cast(Any, instance))
        at_ms = self.loop.now_ms
        alone = one_server(form_of(self.seed), WARM_MS + LASTS_MS)
        for queue, ruled in form_of(self.seed).queues.items():
            calls = 6 * alone[queue] // AT_ONCE + ruled.customers
            for n in range(calls):
                names = tuple(f"k{(n + m) % ruled.customers} {queue} {n} {m}" for m in range(AT_ONCE))
                wanted = [Wanted(int(at_ms) + 1_000 + 97 * (n * AT_ONCE + m) % 9_000, queue) for m in range(AT_ONCE)]
                await self._schedule(f"{queue} {n}", names, tuple(wanted))
        self.since_ms = at_ms + WARM_MS
        await self._until(self.since_ms)
        parts = 1 + max(len(ruled.then) for ruled in form_of(self.seed).queues.values())
        for n in range(parts):
            for queue, ruled in form_of(self.seed).queues.items():
                if 0 < n <= len(ruled.then):
                    self._change(queue, ruled._replace(own=ruled.then[n - 1]), n + 1)
            await self._until(self.since_ms + (n + 1) * LASTS_MS / parts)

    async def _until(self, at_ms: float) -> None:
        await asyncio.sleep((at_ms - self.loop.now_ms) / 1_000)


def _limits(form: Form) -> dict[str, tuple[QueueLimit, bool]]:
    return {name: (limit, name in form.keyed) for name, limit in {**form.limits, **form.keyed}.items()}


# -- the judge ---------------------------------------------------------------------------------------------------------


def rates_of(form: Form, queue: str, customer: str) -> list[tuple[str, ...]]:
    """By what a start goes; each is counted by itself."""
    ruled, found = form.queues[queue], list[tuple[str, ...]]()
    if ruled.own is not None:
        found.append(("queue", queue))
    if ruled.keys is not None:
        found.append(("keys", queue, customer))
    found += [("limit", each) for each in ruled.limits if each in form.limits]
    return found + [("keyed", each, customer) for each in ruled.limits if each in form.keyed]


def limit_of(form: Form, counted: tuple[str, ...]) -> QueueLimit:
    kind, name = counted[:2]
    found = {
        "queue": form.queues[name].own if kind == "queue" else None,
        "keys": form.queues[name].keys if kind == "keys" else None,
        "limit": form.limits.get(name),
        "keyed": form.keyed.get(name),
    }[kind]
    assert found is not None
    return found


def one_server(form: Form, lasts_ms: int) -> Counter[str]:
    """What one server starts of each queue meanwhile, where always more is due: queues take turns, and their keys."""
    rates: dict[tuple[str, ...], RateLimit] = {}
    started, queues = Counter[str](), [*form.queues]
    customers = {queue: [f"k{n}" for n in range(ruled.customers)] for queue, ruled in form.queues.items()}
    for now_ms in range(0, lasts_ms, STEP_MS):
        for queue in [*queues]:
            for customer in [*customers[queue]]:
                counted = rates_of(form, queue, customer)
                for each in counted:
                    rates.setdefault(each, RateLimit(limit_of(form, each), now_ms, is_full=False))
                if all(rates[each].free(now_ms) for each in counted):
                    for each in counted:
                        rates[each].sent(1, now_ms)
                    started[queue] += 1
                    # To the end of the line.
                    customers[queue].append(customers[queue].pop(customers[queue].index(customer)))
                    queues.append(queues.pop(queues.index(queue)))
                    break
    return started


def phases(form: Form) -> list[Form]:
    """As it is, and after each change."""
    changes = max(len(ruled.then) for ruled in form.queues.values())
    return [
        form._replace(queues={queue: ruled._replace(own=ruled.own_after(n)) for queue, ruled in form.queues.items()})
        for n in range(changes + 1)
    ]


def fewer(form: Form, starts: Sequence[Start]) -> Iterator[str]:
    """Queues of which too few have started, and all of them together."""
    alone = sum((one_server(each, LASTS_MS // len(phases(form))) for each in phases(form)), Counter[str]())
    here = Counter(each.queue for each in starts)
    parts = [(f"of the queue {queue}", here[queue], alone[queue], form.queue_part) for queue in form.queues]
    for what, started, most, part in [*parts, ("of all", here.total(), alone.total(), form.whole_part)]:
        if started < part * most:
            yield f"G20: {started} tasks {what} start in {LASTS_MS // 1_000} s, and {most} on one server"


def still(form: Form, starts: Sequence[Start], since_ms: float) -> Iterator[str]:
    """Keys of which nothing has started for too long, as long as no rule changes."""
    alone = one_server(form, LASTS_MS)
    for queue, ruled in form.queues.items():
        most_ms = STILL_MS + STILL_STARTS * ruled.customers * LASTS_MS / max(1, alone[queue])
        for n in range(ruled.customers):
            own = [each.at_ms for each in starts if (each.queue, each.limit_key) == (queue, f"k{n}")]
            times = [since_ms, *own, since_ms + LASTS_MS]
            waited_ms = max(later - before for before, later in pairwise(times))
            if waited_ms > most_ms and not (ruled.then or form.may_stand_still):
                yield f"G22: nothing of the key k{n} of the queue {queue} starts for {waited_ms / 1_000:.0f} s"


def more(form: Form, starts: Sequence[Start]) -> Iterator[str]:
    """Each rate by itself, as `rated.above`."""
    by_rate: dict[tuple[str, ...], list[Start]] = {}
    form = form._replace(queues={queue: _kept(ruled) for queue, ruled in form.queues.items()})
    for each in starts:
        for counted in rates_of(form, each.queue, each.limit_key):
            by_rate.setdefault(counted, []).append(each)
    for counted, those in by_rate.items():
        yield from above(those, limit_of(form, counted))


def _kept(ruled: Ruled) -> Ruled:
    """A rate that is taken away for a while is not judged."""
    return ruled._replace(own=None) if None in ruled.then else ruled


# -- broken rules ------------------------------------------------------------------------------------------------------


@contextmanager
def each_key_draws() -> Iterator[None]:
    """All keys of a queue draw, however few it may start."""
    with patch.object(DrawOrder, "draws", lambda self, queue, _: queue in self):
        yield


@contextmanager
def drawn_unseen() -> Iterator[None]:
    """A queue draws, whether a key of it may start or not."""
    known = RuleLimits.draws_by
    unseen = lambda _, __, ___: -math.inf  # noqa: E731 - all that there is of it
    with patch.object(RuleLimits, "draws_by", lambda self, order, _: known(self, order, unseen)):
        yield


BROKEN: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "correct": nullcontext,
    "each-key-draws": each_key_draws,
    "drawn-unseen": drawn_unseen,
}


# -- histories ---------------------------------------------------------------------------------------------------------


def judged_drawn(seed: int, broken: str = "correct") -> Verdict:
    """As judge.judged."""
    with BROKEN[broken](), watched_cluster(), noted() as errors:
        story = told(DrawnStory(seed, repeats=Repeats(seed)))
    form = form_of(seed)
    late = [each for each in story.starts if each.at_ms >= story.since_ms]
    judged = [*fewer(form, late), *still(form, late, story.since_ms), *more(form, story.starts)]
    found = [*judged, *map(repr, story.errors), *errors]
    hits = Counter({f"of {queue}": sum(each.queue == queue for each in late) for queue in form.queues})
    return Verdict(seed, broken, tuple(found), len(story.events), hits, (), ".cluster.drawn")


def main() -> int:
    """Judges histories, or says what started in one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.cluster.drawn", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--variant", default="correct", choices=BROKEN, help="the rule that is broken")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds) if given.seed is None else [given.seed]
    wrong = 0
    for seed in seeds:
        verdict = judged_drawn(seed, given.variant)
        alone = dict(one_server(form_of(seed), LASTS_MS))
        name = [*FORMS][seed % len(FORMS)]
        print(f"{seed}: {name}: {dict(verdict.hits)}, on one server {alone}", *verdict.wrong, sep="\n    ", flush=True)
        wrong += bool(verdict.wrong)
    print(f"{len(seeds)} histories, {wrong} of them wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
