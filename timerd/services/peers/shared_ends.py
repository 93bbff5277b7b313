"""Ends of tasks between instances: each tells the others of those that callers wait for there.

The end of a task is recorded by the instance that holds it then, which changes while a caller waits. So all others are
asked, and asked again at each look of the wait. Nothing rests on it: what is not told is found by the next look.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence

from timerd.model.codec import TELLS_ENDS
from timerd.services.background import begin
from timerd.services.holding.membership import Membership
from timerd.services.peers.peers import Peers, Silent

# An ask counts so long at least, and twice as long at most: a wait asks anew every five seconds.
ASK_COUNTS_S = 10.0
# Of all instances together; what is asked beyond that is not told.
MOST_ASKED = 100_000
# In one message.
MOST_DIGESTS = 10_000
Names = defaultdict[bytes, set[str]]


class SharedEnds:
    """Of one instance. Implements calls.task_ends.EndsElsewhere."""

    def __init__(self, peers: Peers, members: Membership) -> None:
        self._peers = peers
        self._members = members
        # Which instances wait, by task: in the last seconds, and before that.
        self._asked: Names = defaultdict(set)
        self._asked_before: Names = defaultdict(set)
        self._turned_s = 0.0
        # What is asked and told in this turn of the loop.
        self._asking: list[bytes] = []
        self._sending: asyncio.Task[None] | None = None
        self._telling: defaultdict[str, list[bytes]] = defaultdict(list)

    # -- callers here ---------------------------------------------------------------------------------------------

    def ask(self, digest: bytes) -> asyncio.Future[None] | None:
        if not self._others():
            return None
        self._asking.append(digest)
        if self._sending is None or self._sending.done():
            self._sending = begin(self._send(), "ends")
        return self._sending

    async def _send(self) -> None:
        """What is asked in the turns before it begins goes with it."""
        await asyncio.sleep(0)
        digests, self._asking, self._sending = self._asking, [], None
        await asyncio.gather(*(self._ask_one(name, digests) for name in self._others()))

    async def _ask_one(self, name: str, digests: Sequence[bytes]) -> None:
        for at in range(0, len(digests), MOST_DIGESTS):
            part = digests[at : at + MOST_DIGESTS]
            try:
                await self._peers.ask_for_ends(self._members.address_of(name), self._members.name, part)
            except Silent:
                return

    def _others(self) -> list[str]:
        """Those that know what they are asked."""
        knows = self._members.announced()
        return [
            name
            for name in self._members.live()
            if name != self._members.name and TELLS_ENDS in knows.get(name, ()) and self._members.address_of(name)
        ]

    # -- callers at other instances -------------------------------------------------------------------------------

    @property
    def is_asked(self) -> bool:
        return bool(self._asked or self._asked_before)

    def asked(self, instance: str, digests: Iterable[bytes]) -> None:
        """By another instance."""
        self._forget_old()
        for digest in digests:
            if len(self._asked) >= MOST_ASKED and digest not in self._asked:
                return
            self._asked[digest].add(instance)

    def tell(self, digests: Iterable[bytes]) -> None:
        self._forget_old()
        # A burst ends a hundred thousand tasks in a second that nobody waits for.
        for digest in [each for each in digests if each in self._asked or each in self._asked_before]:
            for name in self._asked.get(digest, frozenset()) | self._asked_before.get(digest, frozenset()):
                if not self._telling:
                    asyncio.get_running_loop().call_soon(self._tell)
                self._telling[name].append(digest)

    def _tell(self) -> None:
        """What is told once stays asked for: an attempt that failed is told as well, and may have been no end."""
        telling, self._telling = self._telling, defaultdict(list)
        live = self._members.live()
        for name, digests in telling.items():
            if name in live:
                for at in range(0, len(digests), MOST_DIGESTS):
                    self._peers.tell_ends(self._members.address_of(name), digests[at : at + MOST_DIGESTS])

    def _forget_old(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._turned_s >= ASK_COUNTS_S:
            is_long = now_s - self._turned_s >= 2 * ASK_COUNTS_S
            self._asked_before = defaultdict(set) if is_long else self._asked
            self._asked, self._turned_s = defaultdict(set), now_s
