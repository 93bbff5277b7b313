"""The keeper of a home hands out the tokens of the rates of its limit keys (rules T1 to T5 of
docs/understand/protocol.md, model rates.pml).

Each key is counted by itself, as the rate of a limit is. Of a key that has its whole burst again nothing is kept, for
that is what an unknown key is taken for.
"""

from __future__ import annotations

from timerd.core.regulation.token_keeper import TokenKeeper
from timerd.core.regulation.tokens import TokenGrant
from timerd.model.keeping import LimitedKey
from timerd.model.regulations import QueueLimit

# Keys that are kept before those are looked for that may be forgotten.
SLACK_KEYS = 1_024


class KeyTokenKeeper:
    """Of one home. `is_first`: there was no keeper before. Times are of a clock that is never set, in whole ms."""

    def __init__(self, now_ms: int, *, is_first: bool) -> None:
        self._began_ms, self._is_first = now_ms, is_first
        self._keys: dict[LimitedKey, TokenKeeper] = {}
        self._prune_at = SLACK_KEYS

    def __len__(self) -> int:
        return len(self._keys)

    def draw(
        self, key: LimitedKey, name: str, want: int, hold_ms: int, limit: QueueLimit | None, now_ms: int
    ) -> TokenGrant:
        """So many for that instance, by the limit of the key as it is now. `hold_ms`: a handler was throttled, and
        nothing of the key is counted for so long; 0: none was."""
        keeper = self._of(key, now_ms)
        if hold_ms:
            keeper.hold(hold_ms, now_ms)
        return keeper.draw(name, want, limit, now_ms)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _of(self, key: LimitedKey, now_ms: int) -> TokenKeeper:
        """T5: an unknown one was not counted since this keeper began."""
        found = self._keys.get(key)
        if found is None:
            if len(self._keys) >= self._prune_at:
                self._prune(now_ms)
            found = self._keys[key] = TokenKeeper(self._began_ms, is_first=self._is_first)
        return found

    def _prune(self, now_ms: int) -> None:
        self._keys = {key: each for key, each in self._keys.items() if not each.is_over(now_ms)}
        self._prune_at = 2 * len(self._keys) + SLACK_KEYS
