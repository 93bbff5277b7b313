"""All mutants, by guarantee. Two or three for each, of the kind that a change could bring in unseen."""

from __future__ import annotations

from tests.mutants import (
    of_asking,
    of_changing,
    of_dead_letters,
    of_delivering,
    of_expiry,
    of_fairness,
    of_hinting,
    of_interrupts,
    of_load,
    of_outbox,
    of_pools,
    of_recurrence,
    of_regulation,
    of_releases,
    of_repeats,
    of_results,
    of_schedules,
    of_storing,
    of_streams,
    of_watching,
)

MUTANTS = (
    *of_storing.MUTANTS,
    *of_repeats.MUTANTS,
    *of_delivering.MUTANTS,
    *of_changing.MUTANTS,
    *of_asking.MUTANTS,
    *of_hinting.MUTANTS,
    *of_load.MUTANTS,
    *of_releases.MUTANTS,
    *of_regulation.MUTANTS,
    *of_fairness.MUTANTS,
    *of_pools.MUTANTS,
    *of_results.MUTANTS,
    *of_schedules.MUTANTS,
    *of_recurrence.MUTANTS,
    *of_outbox.MUTANTS,
    *of_streams.MUTANTS,
    *of_expiry.MUTANTS,
    *of_watching.MUTANTS,
    *of_dead_letters.MUTANTS,
    *of_interrupts.MUTANTS,
)
