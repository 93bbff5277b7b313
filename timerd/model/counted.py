"""How many there are of something, as people say it: the one place for that."""

from __future__ import annotations

_OF_ONE = {
    "are": "is",
    "were": "was",
    "have": "has",
    "do": "does",
    "stay": "stays",
    "live": "lives",
    "stand": "stands",
    "wait": "waits",
}


def counted(count: int, noun: str, verb: str = "") -> str:
    """ "1 task", "2 dead letters", "1,000 tasks were".

    Args:
        count: how many there are.
        noun: what each of them is, in the singular.
        verb: the verb that follows, in the plural: one of those above. Default none.
    """
    is_one = count == 1
    said = f"{count:,} {noun if is_one else _plural(noun)}"
    return f"{said} {_OF_ONE[verb] if is_one else verb}" if verb else said


def _plural(noun: str) -> str:
    if noun.endswith("ry"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
