"""Ids that were printed last, so that a part of one names it.

No index of a server goes by a part of an id: ids begin with their time, which tasks of one instant share. So the
command line remembers what it has shown to this user on this machine, in a file of the state folder, and asks nobody.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from timerd.commands.failures import WrongInput

MOST_KEPT = 2_000
# What is shorter is taken as it is.
LEAST_CHARS = 4
MOST_LISTED = 10
# Of an id as servers make them: in these characters are some of its call, and its number in that.
_WHOLE_CHARS, _SHORT_AT, _SHORT_CHARS = 59, 38, 10


class IdSource(NamedTuple):
    """Ids are told apart by where they are of."""

    server: str
    namespace: str


def short_of(task_id: str) -> str:
    """What tells it apart from others that were printed; of an id in another form all of it. It begins with no dash,
    by which a command would take it for an option."""
    if len(task_id) != _WHOLE_CHARS:
        return task_id
    start = next((at for at in range(_SHORT_AT, 0, -1) if task_id[at] != "-"), 0)
    return task_id[start : start + _SHORT_CHARS]


def file_of_ids() -> Path:
    """Its folder may not be there yet."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "timerd" / "ids"


def remember(source: IdSource, ids: Iterable[str]) -> None:
    """Those that were printed last stand at the end. Where there is no home to write to, nothing is remembered."""
    printed = dict.fromkeys(f"{source.server} {source.namespace} {each}" for each in ids if _is_one_word(each))
    if not printed:
        return
    with suppress(OSError, RuntimeError):
        file = file_of_ids()
        kept = [line for line in _lines(file) if line not in printed]
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = [*kept, *printed][-MOST_KEPT:]
        # Another command may read or write it meanwhile.
        with NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as fresh:
            fresh.write("".join(f"{line}\n" for line in lines))
        Path(fresh.name).replace(file)


def whole_id(source: IdSource, text: str) -> str:
    """The id that was printed and has this part, at its beginning or else anywhere; the text itself where none has.

    Raises:
        WrongInput: several have it.
    """
    if not LEAST_CHARS <= len(text) < _WHOLE_CHARS:
        return text
    before = f"{source.server} {source.namespace} "
    with suppress(OSError, RuntimeError):
        known = [line.removeprefix(before) for line in _lines(file_of_ids()) if line.startswith(before)]
        found = [each for each in known if each.startswith(text)] or [each for each in known if text in each]
        if len(found) > 1:
            raise WrongInput(_several(text, found[::-1]))
        return found[0] if found else text
    return text


def unknown_part(text: str) -> str:
    """What to say where the server knows no task by what was typed; empty: that is as long as an id."""
    if len(text) >= _WHOLE_CHARS:
        return ""
    by_key = f"If it is the key of a task, `timerd get --key {shlex.quote(text)}` shows its id."
    if len(text) < LEAST_CHARS:
        least = f"give {LEAST_CHARS} characters at least, or the whole id"
        return f"{text!r} is too short to be a part of an id: {least}. {by_key}"
    return f"{text!r} is no whole id, and no id that was shown here recently has it in it: give the id whole. {by_key}"


def _several(text: str, found: Sequence[str]) -> str:
    listed = "\n".join(f"  {each}" for each in found[:MOST_LISTED])
    more = f"\n  and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
    return f"{len(found)} ids that were printed here have {text!r} in them. Give more of one:\n{listed}{more}"


def _is_one_word(text: str) -> bool:
    return bool(text) and text.isprintable() and " " not in text


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
