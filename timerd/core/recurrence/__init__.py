"""When a schedule comes: instants from a spec and a zone, without a clock and without the zones' files."""

from timerd.core.recurrence.cron import refuse_long_steps
from timerd.core.recurrence.digests import zone_digest
from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.preview import Foreseen, WallTimeChange, preview
from timerd.core.recurrence.recurrence import Recurrence, jittered_ms, recurrence

__all__ = [
    "Foreseen",
    "Recurrence",
    "SpecError",
    "WallTimeChange",
    "jittered_ms",
    "preview",
    "recurrence",
    "refuse_long_steps",
    "zone_digest",
]
