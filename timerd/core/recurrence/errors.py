"""What is wrong with a spec, for its author."""

from __future__ import annotations

from timerd.model.errors import Invalid


class SpecError(Invalid):
    """`field` is the path within the spec, such as `parts[0].cron.expression`; the sentence says what was wrong, what
    is allowed and what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence, field)
