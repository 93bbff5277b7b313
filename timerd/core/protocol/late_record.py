"""A record of how a row ended may be that of a holder which had a successor by then: that one has read the records
without it, and would send the task once more. So a procedure that rests something on the record of an end tells the
holder of it first (protocol section 6, ack)."""

from __future__ import annotations

from dataclasses import replace

from timerd.core.partition import BY_WORD, Asked
from timerd.core.protocol.cancel import ONWARD
from timerd.core.protocol.lookup import Located
from timerd.core.protocol.procedures import AskToEnd, HolderAnswer, Procedure

REQUEST = b"ended before"


def tell_end(here: Located) -> Procedure[HolderAnswer]:
    """Of what is found to have ended. ENDED: its holder knows by now, or reads the record; with the outcome that
    counts, for where the holder has ended it in another way, its record is the later one (rule K4). OPEN: a worker has
    it once more, and it is not tried again after that. WAITING: it was sent once more, and lives on elsewhere. SILENT.
    What a mark or `moves` ends, or its own instant, ends so with every holder."""
    outcome = here.ending.outcome
    if outcome not in BY_WORD or here.ending.is_known:
        return HolderAnswer(Asked.ENDED, outcome)
    answer: HolderAnswer = yield AskToEnd(here.place.partition, here.place.key, outcome, REQUEST)
    if answer.asked in (Asked.SILENT, Asked.OPEN):
        return answer
    if answer.in_hand:
        return replace(answer, asked=Asked.OPEN)
    if answer.outcome in ONWARD:
        return replace(answer, asked=Asked.WAITING)
    return HolderAnswer(Asked.ENDED, (answer.asked is Asked.ENDED and answer.outcome) or outcome)
