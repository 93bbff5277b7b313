"""The house keeps itself in order: sizes, names, imports and leftovers are findings, not matters of taste."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import style
import wiring

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "timerd"
MODULES = sorted(style.modules(PACKAGE))
PURE = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in ("core", "model")]
SDK = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in ("client.py", "worker.py", "sdk")]

BANNED_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "base"}
IMPURE = {
    "asyncio", "concurrent", "grpc", "logging", "multiprocessing", "os", "random", "secrets", "select", "selectors",
    "signal", "socket", "sqlite3", "subprocess", "threading", "time", "uuid",
}  # fmt: skip
SDK_MAY_IMPORT = {"google", "grpc", "grpc_status"} | sys.stdlib_module_names
SDK_OWN = ("timerd.v1", "timerd.client", "timerd.worker", "timerd.sdk")
# A letter in brackets keeps this line from being a finding.
LEFTOVER = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X])\b|place[h]older|/(?:hom[e]|roo[t])/\w")
# Who may ask which store is configured: whoever opens it, checks its settings, or shows it to people.
NAMES_A_STORE = {"timerd/bootstrap.py", "timerd/commands/backup.py", "timerd/commands/serve.py"}
STORE_NAME = re.compile(r"\.store\s*[=!]=\s*[\"']|\.store\]|isinstance\([^)]*(Sqlite|Cassandra|Memory)Store")
READ = (
    *("timerd", "tests", "proto", "docs", "examples", "benchmarks", "k8s", ".ci"),
    *("clients/go", "clients/typescript/src", "native/src"),
)
READ_SUFFIXES = {".py", ".md", ".proto", ".sh", ".pml", ".go", ".ts", ".mjs", ".rs", ""}


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def words(name: str) -> set[str]:
    """The words of a CamelCase or snake_case name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)}


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of what a module imports, also within functions."""
    for node in style.statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def defined_names(path: Path) -> Iterator[str]:
    yield path.stem
    for node in style.statements(parse(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def texts() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.suffix in (".md", ".toml", ".yaml"))
    for folder in READ:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in READ_SUFFIXES:
                yield path


def test_sizes_and_annotations_stay_within_limits() -> None:
    figures = style.measure(PACKAGE)
    beyond = [
        f"{name}: {value} > {limit} {where}" for name, value, limit, where in style.rows(figures) if value > limit
    ]
    assert beyond == []


def test_the_native_door_stays_small_and_each_file_says_what_it_is_for() -> None:
    files = {place(path): path.read_text(encoding="utf-8") for path in sorted((ROOT / "native/src").glob("*.rs"))}
    assert 0 < sum(text.count("\n") for text in files.values()) < 2_500
    assert [name for name, text in files.items() if not text.startswith("//! ")] == []


def test_names_say_what_a_thing_is() -> None:
    found = [f"{place(path)} {name}" for path in MODULES for name in defined_names(path) if words(name) & BANNED_WORDS]
    assert found == []


def test_names_are_split_into_words() -> None:
    assert words("HTTPBaseServer") == {"http", "base", "server"}
    assert words("lock_manager") == {"lock", "manager"}
    assert not words("DatabaseFromBase64") & BANNED_WORDS


def test_each_module_opens_with_what_it_is_for() -> None:
    silent = [place(path) for path in MODULES if path.read_text().strip() and not ast.get_docstring(parse(path))]
    assert silent == []


def test_core_and_model_import_nothing_that_acts() -> None:
    found = [f"{place(path)} {name}" for path in PURE for name in imports(parse(path)) if name.split(".")[0] in IMPURE]
    assert found == []


def test_core_and_model_read_no_clock() -> None:
    clocks = {"now", "utcnow", "today"}
    calls = [
        f"{place(path)}:{node.lineno}"
        for path in PURE
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in clocks
    ]
    assert calls == []


def test_sdk_imports_only_grpc_protobuf_and_what_is_its_own() -> None:
    def allowed(name: str) -> bool:
        return name.startswith(SDK_OWN) or name.partition(".")[0] in SDK_MAY_IMPORT

    found = [f"{place(path)} {name}" for path in SDK for name in imports(parse(path)) if not allowed(name)]
    assert SDK
    assert found == []


def test_importing_the_sdk_loads_no_server() -> None:
    heavy = (
        "numpy",
        "sqlite3",
        "typer",
        "rich",
        "timerd.core",
        "timerd.adapters",
        "timerd.services",
        "timerd.bootstrap",
    )
    program = f"import sys; from timerd import Client, Worker; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_nothing_is_left_over() -> None:
    found = [
        f"{place(path)}:{number} {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if LEFTOVER.search(line)
    ]
    assert found == []


def test_lock_files_of_npm_name_no_registry() -> None:
    """So that each machine asks the one that it is set up for."""
    locks = [ROOT / ".ci/buf/package-lock.json", ROOT / "clients/typescript/package-lock.json"]
    assert [lock.name for lock in locks if '"resolved"' in lock.read_text(encoding="utf-8")] == []


def test_dispatch_knows_no_protocol_of_the_wire() -> None:
    """It gives rows to a sink; what becomes of them there is the sink's matter."""
    dispatch = [path for path in MODULES if "dispatch" in path.relative_to(PACKAGE).parts]
    wire = re.compile(r"grpc|google|timerd\.(v1|peer)\b|timerd\.services\.(work|transport)\b")
    assert dispatch
    assert [(place(path), name) for path in dispatch for name in imports(parse(path)) if wire.match(name)] == []
    assert [place(path) for path in dispatch if re.search(r"\bpb\.", path.read_text(encoding="utf-8"))] == []


def test_what_a_store_can_do_is_asked_of_its_traits() -> None:
    found = {place(path) for path in MODULES if STORE_NAME.search(path.read_text(encoding="utf-8"))}
    assert found == NAMES_A_STORE
    assert (ROOT / "timerd/bootstrap.py").read_text(encoding="utf-8").count("config.store") == 1


@pytest.mark.parametrize("halves", [("# TO", "DO later"), ("a place", "holder"), ("see /home", "/someone")])
def test_leftovers_are_recognised(halves: tuple[str, str]) -> None:
    assert LEFTOVER.search("".join(halves))


def test_nobody_reaches_through_a_partition_machine() -> None:
    """What a machine has inside is asked of the machine."""
    inside = re.compile(r"\._(table|sweep|rows|log)\b")
    own = {"partition_machine.py", "row_table.py"}
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "timerd").rglob("*.py")
        if path.name not in own
        for line in path.read_text().splitlines()
        if inside.search(line.replace("self._", ""))
    ]
    assert found == []


def test_nobody_gives_a_finished_object_its_collaborators() -> None:
    """They are given in the constructor, where mypy proves that none is forgotten. A collaborator is what has methods:
    a function, or an object of a class of the server that is no value (a dataclass, a tuple, an enumeration)."""
    trees = {path: parse(path) for path in MODULES}
    acting = {name for tree in trees.values() for name in wiring.acting_classes(tree)}
    slots = {slot for tree in trees.values() for slot in wiring.slots(tree, acting)}
    found = [
        f"{place(path)}:{line} {slot}"
        for path, tree in trees.items()
        for line, slot in wiring.given(tree, slots, acting)
    ]
    assert found == []


def test_a_collaborator_that_is_given_late_is_found() -> None:
    tree = ast.parse(
        """
Wake = Callable[[], None]

class Held:
    def __init__(self, peers: Peers, n: int) -> None:
        self.wake: Wake = nothing
        self.peers, self.n = peers, n

class Peers:
    pass

held.wake = other.wake
held.peers, held.n = Peers(), 3
held.n = count
"""
    )
    acting = set(wiring.acting_classes(tree))
    slots = set(wiring.slots(tree, acting))
    assert slots == {"wake", "peers"}
    assert [slot for _, slot in wiring.given(tree, slots, acting)] == ["held.wake", "held.peers"]


def test_what_tests_share_stands_beside_them_and_not_in_one_of_them() -> None:
    shared = {
        place(path): name
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in imports(parse(path))
        if re.match(r"tests\.(\w+\.)*test_", name)
    }
    assert shared == {}, "move what is shared to a module of its own"
