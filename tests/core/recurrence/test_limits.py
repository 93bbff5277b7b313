"""What a spec may not ask for, and what it is told."""

from __future__ import annotations

import re

import pytest

from tests.core.recurrence.local import compute
from timerd.core.recurrence import SpecError
from timerd.model.errors import Invalid
from timerd.model.recurrence import At, Cron, Every, Gap, Jitter, Part, Spec

NINE = Cron("0 9 * * *")
SECONDS = tuple(f"2026-01-01T00:00:00.{n:03}" for n in range(1000))


@pytest.mark.parametrize(
    ("spec", "field", "sentence"),
    [
        (Spec(()), "parts", "give 1 to 32"),
        (Spec((NINE,) * 33), "parts", "has 33 parts"),
        (Spec((Every(999),)), "parts[0].every.period_ms", "from 1 s to 100 years"),
        (Spec((Every(0),)), "parts[0].every.period_ms", "from 1 s to 100 years"),
        (Spec(tuple(Every(1000, n) for n in range(17))), "parts", "1,020 instants in a minute: at most 1,000"),
        (Spec((At(SECONDS), Cron("* * * * * *"))), "parts", "1,120 instants in a minute"),
        (Spec((At(()),)), "parts[0].at.times", "give 1 to 1000"),
        (Spec((At(("tomorrow",)),)), "parts[0].at.times[0]", "write 2026-10-25T02:30:00"),
        (Spec((NINE,), start_ms=5, end_ms=5), "end_ms", "ends before it starts"),
        (Spec((NINE,), start_ms=-1), "start_ms", "before 1970"),
        (Spec((NINE,), jitter_ms=-1), "jitter_ms", "from 0 to a year"),
        (Spec((NINE,), gap=Gap(9)), "gap", "give one of AUTO, SKIP, NEXT, SHIFT"),
        (Spec((NINE,), jitter=Jitter(9)), "jitter", "give one of EACH, FIXED"),
        (Spec((), fixed_delay_ms=999), "fixed_delay_ms", "from 1 s to 100 years"),
        (Spec((NINE,), fixed_delay_ms=1_000), "fixed_delay_ms", "it stands alone"),
        (Spec((), exclude=(NINE,), fixed_delay_ms=1_000), "fixed_delay_ms", "it stands alone"),
    ],
)
def test_a_limit_is_named_with_its_field(spec: Spec, field: str, sentence: str) -> None:
    with pytest.raises(SpecError, match=re.escape(sentence)) as caught:
        compute(spec)
    assert caught.value.field == field
    assert isinstance(caught.value, Invalid)


@pytest.mark.parametrize("part", [At(SECONDS), Cron("* * * * * *"), Every(1_000)])
def test_what_is_just_within_is_taken(part: Part) -> None:
    assert compute(Spec((part,))).after(0, 1)
