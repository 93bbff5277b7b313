"""Modules as one script do what they do by themselves, and what is not understood is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from timerd.web.bundle import NotBundled, bundled

MODULES = {
    "main.js": 'import { tea, brew as make } from "./pages/tea.js";\nimport { cup } from "./cup.js";\n'
    'import { Pot } from "./small.js";\nconst name = "main";\nconsole.log(name, tea, make(cup), new Pot().name);\n',
    "pages/tea.js": 'import { cup } from "../cup.js";\nconst name = "tea";\nexport const tea = `${name} in a ${cup}`;\n'
    "export async function later() {}\nexport function brew(what) {\n  return `a ${what} of ${name}`;\n}\n",
    "cup.js": 'export const cup = "cup";\n',
    "small.js": 'class a{name="pot"}export{a as Pot};\n',
    "unused.js": "syntax error",
}


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, which runs the script")
def test_names_of_one_module_are_no_names_of_another(tmp_path: Path) -> None:
    script = tmp_path / "app.mjs"
    script.write_text(bundled("main.js", MODULES))
    said = subprocess.run(["node", script], capture_output=True, text=True, check=True, timeout=120)
    assert said.stdout == "main tea in a cup a cup of tea pot\n"


def test_a_module_that_two_import_is_there_once() -> None:
    assert bundled("main.js", MODULES).count('"cup";') == 1


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ('import all from "./cup.js";\n', "is not understood: import all from"),
        ("export default 7;\n", "is not understood: export default 7"),
        ('export * from "./cup.js";\n', r"is not understood: export \* from"),
        ('import { x } from "./nowhere.js";\n', "main.js imports nowhere.js, which is not there"),
        ('import { x } from "./main.js";\n', "main.js -> main.js is a circle"),
    ],
)
def test_what_it_does_not_know_is_refused(module: str, said: str) -> None:
    with pytest.raises(NotBundled, match=said):
        bundled("main.js", {**MODULES, "main.js": module})
