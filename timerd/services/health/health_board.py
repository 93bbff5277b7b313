"""What is wrong with this instance just now, by the part of it that cannot do its work: what health checks show.

The part that finds something wrong says so here in a sentence, and takes it back when it is over. A part is red while
it has a reason. READY is all that callers and workers need; LIVE has only what a restart would cure, so that an
instance whose store is away is taken out of service and not killed in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

API, SCHEDULER, STORE = "api", "scheduler", "store"
LIVE = "live"
# Each of them: may this instance be sent anything?
READY = ""
PARTS = (API, SCHEDULER, STORE)


class HealthBoard:
    """`on_change` hears of each change of what `wrong` says."""

    def __init__(self) -> None:
        self._reasons: dict[str, dict[str, str]] = {part: {} for part in (*PARTS, LIVE)}
        self._changed: list[Callable[[], None]] = []

    def set(self, part: str, reason: str, sentence: str) -> None:
        """`part` is red from here on; said again under the same `reason`, the sentence is another one."""
        reasons = self._reasons[part]
        if reasons.get(reason) != sentence:
            reasons[reason] = sentence
            self._tell()

    def clear(self, part: str, reason: str) -> None:
        """Nothing is wrong for this reason any more."""
        if self._reasons[part].pop(reason, None) is not None:
            self._tell()

    def put(self, part: str, reason: str, sentence: str) -> None:
        """Sets it, or clears it where there is nothing to say."""
        if sentence:
            self.set(part, reason, sentence)
        else:
            self.clear(part, reason)

    def wrong(self, part: str) -> Mapping[str, str]:
        """Reason -> sentence."""
        return dict(self._reasons[part])

    def everything(self) -> Mapping[str, Mapping[str, str]]:
        """Of all that READY needs: part -> reason -> sentence."""
        return {part: self.wrong(part) for part in PARTS if self._reasons[part]}

    def is_serving(self, part: str) -> bool:
        return not (self.everything() if part == READY else self._reasons[part])

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed.append(changed)

    def _tell(self) -> None:
        for changed in self._changed:
            changed()
