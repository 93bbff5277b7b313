"""The modules of the page as one script, made when a server starts: a browser asks once, and not for each of them.

Each module becomes a function that returns what it exports, so names of one are no names of another. The modules are
written for that: imports and exports of names alone, each beginning its line.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

# `import { a, b as c } from "./other.js";`
_IMPORT = re.compile(r'^import \{ ?([\w$, ]+?) ?\} from "([^"]+)";$', re.MULTILINE)
_DECLARED = re.compile(r"^export ((?:async )?(?:function|class|const|let) ([\w$]+))", re.MULTILINE)
# Of a library that was made small: `export{a as h,fe as html};` behind all else.
_LIST = re.compile(r"export\{([\w$, ]+)\};?\s*\Z")
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class NotBundled(ValueError):
    """Why modules are not one script: a sentence."""


def bundled(entry: str, modules: Mapping[str, str]) -> str:
    """One script that does what the module `entry` does. `modules`: path -> text.

    Raises NotBundled where a module says something that this does not know.
    """
    done: dict[str, str] = {}
    _add(entry, modules, done, ())
    parts = ["const $ = {};\n"]
    parts += [f"// {path}\n$[{path!r}] = (() => {{\n{text}}})();\n" for path, text in done.items()]
    return "".join(parts)


def _add(path: str, modules: Mapping[str, str], done: dict[str, str], above: tuple[str, ...]) -> None:
    """What it imports comes before it."""
    if path in above:
        raise NotBundled(f"{' -> '.join((*above, path))} is a circle of imports.")
    if path in done:
        return
    if path not in modules:
        raise NotBundled(f"{above[-1] if above else 'Nobody'} imports {path}, which is not there.")
    folder = posixpath.dirname(path)

    def taken(found: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(folder, found[2]))
        _add(other, modules, done, (*above, path))
        return f"const {{ {found[1].replace(' as ', ': ')} }} = $[{other!r}];"

    done[path] = _as_function(path, _IMPORT.sub(taken, modules[path]))


def _as_function(path: str, text: str) -> str:
    names = {each[2]: each[2] for each in _DECLARED.finditer(text)}
    text = _DECLARED.sub(r"\1", text)
    if listed := _LIST.search(text):
        pairs = (each.strip().partition(" as ") for each in listed[1].split(","))
        names |= {outside or inside: inside for inside, _, outside in pairs}
        text = text[: listed.start()] + "\n"
    if left := _LEFT.search(text):
        raise NotBundled(f"{path} has a line that is not understood: {left[0]:.80}")
    return f"{text}return {{ {', '.join(f'{outside}: {inside}' for outside, inside in names.items())} }};\n"
