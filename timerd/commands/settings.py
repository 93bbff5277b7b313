"""What the server is told, from four places: the defaults, a TOML file, the environment, the flags. The later wins, and
where each value came from is kept, so that `timerd config show` can say it.

A name that nobody knows is refused with the nearest that is known: a setting that is silently not in force is worse
than a server that does not start.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from timerd.commands.failures import WrongInput
from timerd.commands.setting import PREFIX, Setting, settings_of
from timerd.config import ServerConfig

# In the unit of the setting, not in that of the model.
_LIMITS = {"ge": "at least", "le": "at most"}
FILE_VARIABLE = f"{PREFIX}CONFIG"
DEFAULT, ENVIRONMENT, FLAG = "default", "environment", "flag"
# Of clients, of commands run by `timerd work --exec`, and of the command line itself.
_OF_OTHERS = frozenset(
    PREFIX + name
    for name in (
        *("CONFIG", "SERVER", "NAMESPACE", "TOKEN", "TOKEN_FILE", "TLS_CA", "TLS_CERT", "TLS_KEY", "TRACEBACK"),
        *("TASK_ID", "DELIVERY_ID", "ATTEMPT", "FIRE_TIME", "QUEUE"),
    )
)
# Kubernetes tells each pod of a service named `timerd...` in this way; tests have names of their own.
# Its ports are written with their protocol: a bare number there is meant as a setting.
_NOT_OURS = re.compile(
    r"TIMERD_(?:.*_)?(?:SERVICE_(?:HOST|PORT)(?:_.*)?=.*|PORT_\d+_.*|PORT=[a-z]+://.*)|TIMERD_(?:TEST|WITNESS)_.*"
)
_SETTINGS = {setting.name: setting for setting in settings_of(ServerConfig)}
_VARIABLES = {setting.variable: setting for setting in _SETTINGS.values()}


@dataclass(frozen=True, slots=True)
class Given:
    """A value before the model has seen it, and the place that the user finds it at."""

    value: object
    origin: str
    label: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    config: ServerConfig
    origins: Mapping[str, str]


class WrongSettings(WrongInput):
    """All that is wrong, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


Layer = dict[str, Given]
GivenFlags = Mapping[str, tuple[str, object]]


def load(
    file: Path | None, environment: Mapping[str, str], flags: GivenFlags | None = None, pairs: Sequence[str] = ()
) -> LoadedSettings:
    """`flags`: setting -> (flag, value), the value None where it was not given; `pairs`: the texts of --set. Raises
    WrongSettings."""
    problems: list[str] = []
    file = file or (Path(environment[FILE_VARIABLE]) if environment.get(FILE_VARIABLE) else None)
    layers = (
        _of_file(file, problems) if file is not None else {},
        _of_environment(environment, problems),
        {name: Given(value, FLAG, flag) for name, (flag, value) in (flags or {}).items() if value is not None},
        _of_pairs(pairs, problems),
    )
    given = {name: one for layer in layers for name, one in layer.items()}
    config = _validated(given, problems)
    if config is None:
        raise WrongSettings(list(dict.fromkeys(problems)))
    origins = {name: given[name].origin if name in given else DEFAULT for name in _SETTINGS}
    return LoadedSettings(config, origins)


def known() -> Sequence[Setting]:
    return list(_SETTINGS.values())


def _of_file(path: Path, problems: list[str]) -> Layer:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongInput(f"The configuration {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongInput(f"{path} is not TOML: {error}.") from error
    found: Layer = {}
    for name, value in _flat(table):
        if name in _SETTINGS:
            found[name] = Given(value, str(path), f"{name} in {path}")
        else:
            problems.append(_unknown(f"{name} in {path}", name, _SETTINGS))
    return found


def _flat(table: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        name = f"{section}{key}"
        if isinstance(value, dict) and name not in _SETTINGS:
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _of_environment(environment: Mapping[str, str], problems: list[str]) -> Layer:
    found: Layer = {}
    for variable in sorted(name for name in environment if name.startswith(PREFIX)):
        setting = _VARIABLES.get(variable)
        if setting is not None:
            found[setting.name] = Given(environment[variable], ENVIRONMENT, variable)
        elif variable not in _OF_OTHERS and not _NOT_OURS.match(f"{variable}={environment[variable]}"):
            problems.append(_unknown(f"{variable} in the environment", variable, _VARIABLES))
    return found


def _of_pairs(pairs: Sequence[str], problems: list[str]) -> Layer:
    found: Layer = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            problems.append(f"--set {pair} has no value: write --set NAME=VALUE.")
        elif name in _SETTINGS:
            found[name] = Given(value, FLAG, f"--set {name}")
        else:
            problems.append(_unknown(f"--set {name}", name, _SETTINGS))
    return found


def _unknown(where: str, name: str, among: Mapping[str, Setting]) -> str:
    nearest = get_close_matches(name, among, 1, 0.4)
    hint = f"the nearest is {nearest[0]}" if nearest else "`timerd config show` lists them all"
    return f"{where} is no setting: {hint}."


def _validated(given: Mapping[str, Given], problems: list[str]) -> ServerConfig | None:
    nested: dict[str, Any] = {}
    for name, one in given.items():
        setting = _SETTINGS[name]
        value = _surely(setting, one, problems)
        *sections, last = setting.path
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    if problems:
        return None
    try:
        return TypeAdapter(ServerConfig).validate_python(nested)
    except ValidationError as error:
        problems += [_told(detail, given) for detail in error.errors(include_url=False)]
        return None


def _surely(setting: Setting, one: Given, problems: list[str]) -> object:
    try:
        return setting.read(one.value)
    except WrongInput as error:
        problems.append(f"{one.label}: {'its value cannot be read.' if setting.is_secret else error}")
        return None


def _told(detail: Any, given: Mapping[str, Given]) -> str:  # noqa: ANN401 - pydantic's own dictionary
    path = tuple(str(part) for part in detail["loc"])
    setting = next((each for each in _SETTINGS.values() if each.path == path[: len(each.path)]), None)
    if setting is None or setting.name not in given:
        return f"{'.'.join(path)}: {detail['msg']}."
    one = given[setting.name]
    shown = "is given" if setting.is_secret else f"is {one.value!r}"
    if detail["type"] == "literal_error":
        return f"{one.label} {shown}: allowed are {detail['ctx']['expected']}."
    for limit, words in _LIMITS.items():
        if limit in detail.get("ctx", {}):
            return f"{one.label} {shown}: {words} {setting.show(detail['ctx'][limit])} is allowed."
    said = str(detail["msg"]).removeprefix("Value error, ")
    return f"{one.label} {shown}: {said[:1].lower()}{said[1:]}."
