"""Engine time (protocol section 3): a clock that counts suspend plus an offset, slewed towards the wall clock.

Tasks fire by engine time. A wall clock that is stepped does not move it: when the two differ by more than 100 ms the
instance stops firing, closing and accepting, and re-anchors when the wall clock has kept its new course for 30 s.

It never goes back, or rows would be written below `closing`. After a wall clock that was set back it stands still, not
trusted, until the wall has caught up; a restart anchors anew for those who cannot wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

MAX_DIFFERENCE_MS = 100.0
STABLE_MS = 30_000.0
# Engine time gains or loses at most so much on the boot clock while it follows the wall: never a jump, never backwards.
SLEW = 0.0005
# Wall and boot clock agree about a stretch of time when they differ by less.
STEADY_MS = 20.0


@dataclass(slots=True)
class EngineClock:
    """`observe` is given both clocks at one instant; `now_ms` is monotonic."""

    offset_ms: float
    _seen_boot_ms: float
    # How long a wall clock that jumped must keep its new course before it is believed.
    stable_ms: float = STABLE_MS
    trusted: bool = True
    difference_ms: float = 0.0
    # How often it was set anew: what was known of it before says nothing about it now.
    origins: int = 0
    _course_ms: float = 0.0
    _steady_since_ms: float = 0.0
    _held_ms: float = -inf

    @classmethod
    def anchored(cls, wall_ms: float, boot_ms: float, stable_ms: float = STABLE_MS) -> EngineClock:
        return cls(wall_ms - boot_ms, boot_ms, stable_ms)

    def now_ms(self, boot_ms: float) -> float:
        return max(self._held_ms, boot_ms + self.offset_ms)

    def observe(self, wall_ms: float, boot_ms: float) -> bool:
        """Returns whether time is trusted now."""
        elapsed = boot_ms - self._seen_boot_ms
        self._seen_boot_ms = boot_ms
        self.difference_ms = wall_ms - self.now_ms(boot_ms)
        if self.trusted and abs(self.difference_ms) <= MAX_DIFFERENCE_MS:
            limit = SLEW * elapsed
            self.offset_ms += max(-limit, min(limit, self.difference_ms))
        else:
            self._recover(wall_ms, boot_ms)
        return self.trusted

    def _recover(self, wall_ms: float, boot_ms: float) -> None:
        course = wall_ms - boot_ms
        if self.trusted or abs(course - self._course_ms) > STEADY_MS:
            self.trusted = False
            self._course_ms = course
            self._steady_since_ms = boot_ms
        elif abs(self.difference_ms) <= MAX_DIFFERENCE_MS / 2:
            self.trusted = True
        elif boot_ms - self._steady_since_ms >= self.stable_ms:
            self._held_ms = self.now_ms(boot_ms)
            self.offset_ms = course
            self.origins += 1
            self.difference_ms = wall_ms - self.now_ms(boot_ms)
            self.trusted = self.difference_ms >= 0
