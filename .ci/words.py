"""Private words: each of them has a standard term by now, and may only become rarer (CONTRIBUTING.md, "Names").

`python .ci/words.py` fails where the package says one more often than `.ci/words.json` allows, or more rarely, for then
the figure there is to be lowered (`--write`). A type name that stands for two things is counted the same way.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = Path(__file__).with_suffix(".json")
TWICE = "type names that stand twice"
# Private word -> the field's term.
TERMS = {
    "bury": "put dead letters",
    "exhume": "take dead letters",
    "letters": "dead letters",
    "anchor": "origin",
    "lately": "duplicates",
    "rehome": "relocation",
    "wanderer": "forwarding pointer",
    "park": "offload",
    "aside": "blocked on a move",
    "sift": "gate",
    "verdict": "pending outcome",
    "desk": "worker frontend",
    "stray": "orphaned delivery",
    "strays": "orphaned deliveries",
    "abroad": "remote instances",
    "lending": "credit allocation",
    "performer": "procedure runner",
    "effector": "effect runner",
    "ticket": "log sequence number",
    "tickets": "log sequence numbers",
    "recarry": "redo of incomplete requeues",
    "tally": "queue stats",
    "tallies": "queue stats",
    "heat": "load estimate",
    "foresight": "forecast",
    "patience": "call deadline",
    "checkup": "readiness probe",
    "alone": "single instance",
    "anybodys": "no peers",
    "whoever": "the instance, the caller, the worker",
    "he": "it",
    "his": "its",
    "him": "it",
}
# Where the word is no private one: it belongs to the field's term, to a public name, or to what is stored.
RIGHT = {
    "letters": r"(?i)dead[-_\s]*letters|ASCII letters|f\"letters/",
}
# Files and folders in which it is: the word of a public name, or the right one for the thing.
RIGHT_IN = {
    "anchor": (
        # The field `anchor` of a schedule's `every`.
        "timerd/model/recurrence.py",
        "timerd/core/recurrence/periods.py",
        "timerd/services/schedules/spec_wire.py",
        "timerd/contrib/apscheduler/times.py",
        "timerd/sdk/values/schedule_values.py",
        "timerd/contrib/apscheduler/times.py",
    ),
    # The argument `patience_s` of the servers for tests.
    "patience": ("timerd/testing/", "timerd/rehearsal/"),
    # The demo judges the logs of a run.
    "verdict": ("timerd/demo/",),
}
# Plain English in a sentence, so they count in names only.
IN_NAMES = frozenset(("alone",))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def sources() -> Iterator[Path]:
    """The package without what is generated."""
    return (path for path in sorted((ROOT / "timerd").rglob("*.py")) if "v1" not in path.parts)


def words_in(text: str) -> Counter[str]:
    """The words of names, comments and docstrings, in lower case."""
    return Counter(word.lower() for word in _WORD.findall(text))


def private_in(where: str, text: str) -> Counter[str]:
    """The private words of a file: how often each stands where it is not the right one."""
    names = words_in(" ".join(names_in(text)))
    for phrases in RIGHT.values():
        text = re.sub(phrases, "", text)
    found = words_in(text)
    for word, places in RIGHT_IN.items():
        if where.startswith(places):
            del found[word]
    for word in IN_NAMES:
        found[word] = names[word]
    return found


def names_in(text: str) -> Iterator[str]:
    """The identifiers of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return (token.string for token in tokens if token.type == tokenize.NAME)


def types_in(tree: ast.Module) -> Iterator[str]:
    """The classes and the names for types of a module."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id[0].isupper() and not target.id.isupper():
                yield target.id


def twice() -> list[str]:
    """Type names that more than one module defines. What the SDK offers is another layer, and so is what is shipped for
    tests: each counts by itself."""
    where: dict[tuple[str, str], int] = defaultdict(int)
    for path in sources():
        layer = next((part for part in ("sdk", "testing") if part in path.parts), "")
        for name in set(types_in(ast.parse(path.read_text(encoding="utf-8")))):
            where[layer, name] += 1
    return sorted(name for (_, name), modules in where.items() if modules > 1)


def counted() -> dict[str, int]:
    """How often each stands in the package."""
    found: Counter[str] = Counter()
    for path in sources():
        found += private_in(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    return {word: found[word] for word in TERMS} | {TWICE: len(twice())}


def findings(found: Mapping[str, int], allowed: Mapping[str, int]) -> Iterator[str]:
    """One sentence for each figure that is not as allowed."""
    for word, times in found.items():
        may = allowed.get(word, 0)
        if times > may:
            instead = f": say {TERMS[word]!r}" if word in TERMS else f": {', '.join(twice())}"
            yield f"{word!r} stands {times} times, {may} are allowed{instead}"
        elif times < may:
            yield f"{word!r} stands {times} times, {may} are allowed: lower the figure (python .ci/words.py --write)"


def main() -> int:
    found = counted()
    if "--write" in sys.argv[1:]:
        ALLOWED.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    wrong = list(findings(found, json.loads(ALLOWED.read_text(encoding="utf-8"))))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    left = sum(times for word, times in found.items() if word in TERMS)
    print(f"{left} private words and {found[TWICE]} type names that stand twice are left")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
