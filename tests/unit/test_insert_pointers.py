"""A row that was written again many times before: each try of a carry goes the whole way once more."""

from __future__ import annotations

from timerd.core.holding import Offered
from timerd.core.insert import MAX_ROUNDS, Inserted, insert
from timerd.core.procedures import AppendRows, Ending, Find, FindSettledMany, HintRows, OfferRows, SetMarks
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import Control
from timerd.model.rows import single_row
from timerd.model.storage import Append, Appended, Found, Mark, MarkKind
from timerd.model.task import NO_EXTRA, Template

HERE = Partition(TIME_SCOPE, 0, 0)
DIGEST = b"p" * 12 + b"\0\0\0\3"
CLOSED = Control(1, "me", "", 1_000, 1_000).to_bytes()
# 10 points to 20, 20 to 30, ...: more places than an insert may choose anew.
POINTED = {10 * n: 10 * (n + 1) for n in range(1, MAX_ROUNDS * 2)}


def test_places_that_were_chosen_before_are_followed_however_many_there_are() -> None:
    row = single_row(RowKey(10, DIGEST, 1), 10, Template("default", "q"), b"", NO_EXTRA, 0)
    procedure = insert(Append(((HERE, row),)), 500)
    answer: object = None
    written: list[int] = []
    done = Inserted()
    try:
        while True:
            request = procedure.send(answer)
            match request:
                case AppendRows(messages):
                    written.append(int(messages[0].groups[0][1].columns["position_ms"][0]))
                    answer = [Appended({HERE: CLOSED}, {}, frozenset(), None)]
                case OfferRows():
                    answer = Offered.BELOW_FLOOR
                case Find(_, keys):
                    to_ms = POINTED.get(keys[0][0])
                    key = RowKey(keys[0][0], DIGEST, 1)
                    marks = [Mark(HERE, key, MarkKind.FORWARD, b"%d" % to_ms)] if to_ms else []
                    answer = [Found(row, marks)]
                case FindSettledMany():
                    answer = [Ending(None)]
                case SetMarks() | HintRows():
                    answer = ()
    except StopIteration as end:
        done = end.value
    assert written == [*POINTED, max(POINTED.values()), 1_000]
    assert done.moved == {(10, DIGEST): 1_000}
