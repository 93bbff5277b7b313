"""How many deliveries of each limit key of a queue are in the hands of workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from timerd.core.dispatch.hand_count import HandCount
from timerd.core.taken import QueueKey, Taken

_Owner = tuple[QueueKey, str]


class KeyHand(HandCount):
    """Of one key. All that is counted here counts for the queue as well."""

    def __init__(self, whole: HandCount, over: Callable[[], None], brought: Callable[[], None]) -> None:
        super().__init__()
        self.whole = whole
        self._over = over
        self._brought = brought

    def is_part_of(self, hand: HandCount) -> bool:
        return hand in (self, self.whole)

    def begin(self, deliveries: int, sent_ms: int) -> None:
        self.open += deliveries
        self.whole.begin(deliveries, sent_ms)

    def end(self, outcome: str, deliveries: int, sent_ms: int, now_ms: int) -> None:
        self.whole.end(outcome, deliveries, sent_ms, now_ms)
        self._fewer(deliveries)

    def bring(self) -> None:
        self.open += 1
        self.brought += 1
        self.whole.bring()
        self._brought()

    def bring_less(self) -> None:
        self.brought -= 1
        self.whole.bring_less()
        self._fewer(1)

    def _fewer(self, deliveries: int) -> None:
        self.less(deliveries)
        if not self.open:
            self._over()


class KeyHands:
    """`hand`: of the deliveries of a queue. `queues`: those whose deliveries are told apart by their keys."""

    def __init__(self, hand: Callable[[QueueKey], HandCount]) -> None:
        self._hand = hand
        self.queues: Collection[QueueKey] = ()
        self._brought: Callable[[QueueKey, str], None] = lambda _, __: None
        self._hands: dict[_Owner, KeyHand] = {}

    def __len__(self) -> int:
        return len(self._hands)

    def on_brought(self, told: Callable[[QueueKey, str], None]) -> None:
        """`told` hears of keys of which a worker has brought something."""
        self._brought = told

    def of(self, queue: QueueKey, limit_key: str) -> HandCount:
        """Of a key; it is forgotten when nothing of it is in hand."""
        owner = queue, limit_key
        found = self._hands.get(owner)
        if found is None:
            over, brought = partial(self._forget, owner), lambda: self._brought(queue, limit_key)
            found = self._hands[owner] = KeyHand(self._hand(queue), over, brought)
        elif not found.open:
            # Counts of queues are forgotten as well.
            found.whole = self._hand(queue)
        return found

    def counted(self, queue: QueueKey, limit_key: str) -> HandCount:
        """Of a key, or of a queue where that is empty."""
        return self.of(queue, limit_key) if limit_key else self._hand(queue)

    def known(self, queue: QueueKey, limit_key: str) -> HandCount | None:
        """As `of`; None: nothing of it is in hand."""
        return self._hands.get((queue, limit_key))

    def open(self, queue: QueueKey, limit_key: str) -> int:
        """How many are in hand."""
        found = self._hands.get((queue, limit_key))
        return 0 if found is None else found.open

    def owners(self) -> Iterable[_Owner]:
        """Keys of which something is in hand, or of which somebody waits for the end of what is."""
        return self._hands

    def told_apart(self, queue: QueueKey, parts: Iterator[tuple[int, Taken]]) -> Iterator[tuple[int, Taken, HandCount]]:
        """Parts of a queue as parts of one key each, and where they count."""
        if queue not in self.queues:
            hand = self._hand(queue)
            return ((worker, part, hand) for worker, part in parts)
        return (
            (worker, some, self.of(queue, limit_key)) for worker, part in parts for limit_key, some in _by_key(part)
        )

    def unwatch(self, queue: QueueKey, limit_key: str) -> None:
        """Nobody waits for the end of what is to come."""
        found = self._hands.get((queue, limit_key))
        if found is not None and not found.open:
            found.on_less = None
            self._forget((queue, limit_key))

    def _forget(self, owner: _Owner) -> None:
        found = self._hands.get(owner)
        if found is not None and not found.open and found.on_less is None:
            del self._hands[owner]


def _by_key(part: Taken) -> Iterator[tuple[str, Taken]]:
    """Neighbours of one key."""
    if len(part) == 1:
        yield part.rows.template_of(0).limit_key, part
        return
    names = [template.limit_key for template in part.rows.templates]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    kinds = np.array([numbers[name] for name in names])[part.rows.columns["template"]]
    ends = (np.flatnonzero(np.diff(kinds)) + 1).tolist()
    for first, stop in pairwise([0, *ends, len(part)]):
        name = part.rows.template_of(first).limit_key
        yield name, part if stop - first == len(part) else part.part(slice(first, stop))
