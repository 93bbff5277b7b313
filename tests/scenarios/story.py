"""Stories of one partition machine as text: what it is told, and what it says.

A story is a file of steps. The first line of a step says what the machine is told, the lines below it are more of that,
and what stands below `----` is what it answers and what it wants done:

    take
    ----
    a@1000 b@1000

With REWRITE=1 in the environment the answers are written anew. The language is told in README.md beside the stories.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

END = "----"


@dataclass(slots=True)
class Step:
    """`words` and `options` of its first line (`a=1` is an option), the lines below it, and the answer that it has in
    the file."""

    line: int
    text: str
    more: list[str] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.text.split()[0]

    @property
    def words(self) -> list[str]:
        return [word for word in self.text.split()[1:] if "=" not in word]

    @property
    def options(self) -> dict[str, str]:
        pairs = (word.partition("=") for word in self.text.split()[1:] if "=" in word)
        return {name: value for name, _, value in pairs}


@dataclass(slots=True)
class Told:
    """A part of a story: remarks as they stand, or a step."""

    remarks: list[str]
    step: Step | None = None


def parts(text: str) -> Iterator[Told]:
    """Steps are told apart by empty lines."""
    number = 1
    for block in text.strip("\n").split("\n\n"):
        lines = block.splitlines()
        remarks = [line for line in lines if line.startswith("#")]
        said = lines[len(remarks) :]
        if not said:
            yield Told(remarks)
        else:
            assert END in said, f"line {number}: a step without {END}"
            at = said.index(END)
            yield Told(remarks, Step(number + len(remarks), said[0], said[1:at], said[at + 1 :]))
        number += len(lines) + 1


def play(path: Path, tell: Callable[[Step], list[str]]) -> list[str]:
    """Tells each step. Returns the steps that were answered otherwise than the file says."""
    found, wrong, written = list(parts(path.read_text(encoding="utf-8"))), [], []
    for part in found:
        step = part.step
        if step is None:
            written.append("\n".join(part.remarks))
            continue
        answer = tell(step)
        if answer != step.answer:
            wrong.append(
                "\n".join([f"{path.name}:{step.line} {step.text}", "it says:", *answer, "and not:", *step.answer])
            )
        written.append("\n".join([*part.remarks, step.text, *step.more, END, *answer]))
    if os.environ.get("REWRITE"):
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")
        return []
    return wrong
