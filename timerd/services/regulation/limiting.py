"""Limits with names: changed for those who ask, one change at a time on each instance.

A queue lists a limit that is there, and a limit that a queue lists is not deleted. Both are looked at in the store, and
hold until the change is made, unless another instance changes the other one at the same moment: then the queue lists a
limit that is there no more, and sends nothing until it is put again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from timerd.core.regulation import (
    KnownRules,
    LimitChange,
    change_limit,
    list_limits,
    list_regulated,
    read_named_limits,
)
from timerd.model.errors import NotFound, Precondition
from timerd.model.named_limits import KeyOverrides, LimitName, NamedLimit
from timerd.model.regulations import Order, QueueLimit, Regulation
from timerd.services.holding.driving import Performs, drive
from timerd.services.regulation.told import RuleTelling

PAGE = 1_000
# So many queues are named in a sentence.
_MOST_NAMED = 3


class Limiting:
    """Of one instance. `heard`: goes by a limit that is another one now. `others`: where there are any. `fit`: a limit
    as it is to be stored."""

    def __init__(
        self,
        heard: Callable[[LimitName, NamedLimit], None],
        known: KnownRules,
        runner: Performs,
        others: RuleTelling | None,
        fit: Callable[[NamedLimit], NamedLimit],
    ) -> None:
        self._heard = heard
        self._fit = fit
        self._known = known
        self._runner = runner
        self._others = others
        self._changing = asyncio.Lock()

    def listed_by(self, name: LimitName) -> list[str]:
        """The queues that list it, by name."""
        return sorted(each.queue for each in self._known.listed_by(name))

    async def get(self, name: LimitName) -> NamedLimit:
        """Raises NotFound."""
        (kept,) = await drive(read_named_limits([name]), self._runner)
        if kept.limit is None:
            raise _absent(name)
        return kept

    async def page(self, namespace: str, after: str, limit: int) -> Sequence[tuple[LimitName, NamedLimit]]:
        """Those that were deleted among them."""
        return await drive(list_limits(namespace, after, limit), self._runner)

    async def put(
        self, name: LimitName, request: str, revision: int, limit: QueueLimit, overrides: KeyOverrides | None = None
    ) -> NamedLimit:
        """`overrides`: each limit key has it for itself, and some another one. Raises Aborted, Precondition."""
        async with self._changing:
            if overrides is not None:
                self._check_turns(name)
            return await self._changed(
                name, request, revision, lambda kept: replace(kept, limit=limit).by_key(overrides)
            )

    async def delete(self, name: LimitName, request: str, revision: int) -> None:
        """Raises Aborted, NotFound, and Precondition where a queue lists it."""

        def without(kept: NamedLimit) -> NamedLimit:
            if kept.limit is None:
                raise _absent(name)
            return replace(kept, limit=None).by_key(None)

        async with self._changing:
            await self._check_unlisted(name)
            await self._changed(name, request, revision, without)

    @asynccontextmanager
    async def listing(self, names: Sequence[LimitName]) -> AsyncIterator[None]:
        """As long as this lasts they are there. Raises Precondition."""
        async with self._changing:
            kept = await drive(read_named_limits(names), self._runner) if names else []
            for name in [name for name, each in zip(names, kept, strict=True) if each.limit is None]:
                raise Precondition(
                    f"There is no limit {name.limit!r}, so no queue can list it: put it first (timerd limits set "
                    f"{name.limit}), then repeat the call; nothing was changed.",
                    "LIMIT_UNKNOWN",
                    field="limits",
                )
            yield

    def check_order(self, namespace: str, rules: Regulation) -> None:
        """Of who changes a queue. Raises Precondition."""
        names = [LimitName(namespace, each) for each in rules.limits] if rules.order == Order.EDF else []
        if keyed := [name.limit for name in names if self._known.is_keyed(name)]:
            raise Precondition(
                f"A queue of the order EDF goes by deadlines, and each limit key has {keyed[0]!r} for itself, so they "
                "take turns: list another limit, or give the order AGED; nothing was changed.",
                "LIMIT_OF_KEYS",
                field="limits",
            )

    def _check_turns(self, name: LimitName) -> None:
        """Raises Precondition."""
        if by := [queue.queue for queue in self._known.listed_by(name) if self._known.of(queue).order == Order.EDF]:
            raise Precondition(
                f"The limit {name.limit!r} is listed by {min(by)!r}, which goes by deadlines, and keys of a keyed "
                "limit take turns: take it off this queue (timerd queues set), or give it the order AGED; nothing was "
                "changed.",
                "LIMIT_OF_KEYS",
                field="keyed",
            )

    async def _changed(self, name: LimitName, request: str, revision: int, decide: LimitChange) -> NamedLimit:
        fitted = lambda kept: self._fit(decide(kept))  # noqa: E731 - what is decided, as it is stored
        kept = await drive(change_limit(name, request, revision, fitted), self._runner)
        self._heard(name, kept)
        if self._others is not None:
            await self._others.tell_limit(name, kept)
        return kept

    async def _check_unlisted(self, name: LimitName) -> None:
        """Raises Precondition."""
        listed, after = [], ""
        while found := await drive(list_regulated(name.namespace, after, PAGE), self._runner):
            after = found[-1][0].queue
            listed += [queue.queue for queue, rules in found if name.limit in rules.limits]
        if listed:
            more = f" and {len(listed) - _MOST_NAMED:,} more" if len(listed) > _MOST_NAMED else ""
            raise Precondition(
                f"The limit {name.limit!r} is listed by {', '.join(map(repr, listed[:_MOST_NAMED]))}{more}: nothing "
                "was deleted. Take it off these queues (timerd queues set), then delete it.",
                "LIMIT_LISTED",
                field="limit",
            )


def _absent(name: LimitName) -> NotFound:
    return NotFound(
        f"There is no limit {name.limit!r} in the namespace {name.namespace!r}: look at those that there are (timerd "
        "limits list), or put it.",
        "LIMIT_NOT_FOUND",
        field="limit",
    )
