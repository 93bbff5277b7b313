"""What a worker says of deliveries, on its way to where they were sent."""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.dispatch import Action
from timerd.model.pushback import Pushback


class Said(NamedTuple):
    """As the wire says it. `throttle`: of a NACK."""

    action: Action
    delay_ms: int | None = None
    error: str = ""
    throttle: Pushback | None = None
