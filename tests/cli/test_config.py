"""Settings from a file, the environment and flags: the later wins, unknown names are refused, secrets stay hidden."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import ConfigDict, SecretStr
from pydantic.dataclasses import dataclass

from tests.cli.conftest import Terminal
from timerd.commands import settings
from timerd.commands.failures import WrongInput
from timerd.commands.setting import HIDDEN, settings_of, value_of
from timerd.commands.settings import WrongSettings, known, load
from timerd.config import MIB, ServerConfig

PAGE = Path(__file__).parent.parent.parent / "docs" / "operate" / "configuration.md"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "timerd.toml"
    path.write_text('data = "of-file"\ndrain = "3s"\nmemory_budget = "2GiB"\n[tls]\nkey_file = "k.pem"\n')
    return path


def test_without_anything_the_defaults_are_in_force() -> None:
    loaded = load(None, {})
    assert loaded.config == ServerConfig()
    assert set(loaded.origins.values()) == {"default"}


def test_the_environment_wins_over_the_file_and_flags_over_both(file: Path) -> None:
    environment = {"TIMERD_DATA": "of-environment", "TIMERD_DRAIN": "4s", "TIMERD_TLS_CERTIFICATE_FILE": "c.pem"}
    loaded = load(file, environment, {"drain": ("--drain", "5s"), "listen": ("--listen", None)})
    config = loaded.config
    assert (config.data, config.drain_ms, config.memory_budget_bytes) == (Path("of-environment"), 5_000, 2048 * MIB)
    assert (config.tls.key_file, config.tls.certificate_file) == (Path("k.pem"), Path("c.pem"))
    origins = [loaded.origins[name] for name in ("data", "drain", "memory_budget", "listen", "tls.certificate_file")]
    assert origins == ["environment", "flag", str(file), "default", "environment"]


def test_the_file_may_be_named_by_the_environment(file: Path) -> None:
    assert load(None, {"TIMERD_CONFIG": str(file)}).config.drain_ms == 3_000


def test_any_setting_can_be_set_on_the_command_line() -> None:
    loaded = load(None, {}, pairs=("look_ahead=2m", "catch_up_rows_per_s=9", "insecure=true"))
    assert (loaded.config.look_ahead_ms, loaded.config.catch_up_rows_per_s, loaded.config.insecure) == (
        120_000,
        9,
        True,
    )


UNKNOWN = [
    ({"TIMERD_LISTNE": "x"}, "", (), "TIMERD_LISTNE in the environment is no setting: the nearest is TIMERD_LISTEN."),
    ({}, "memory_bugdet = 1", (), "is no setting: the nearest is memory_budget."),
    ({}, "[tls]\nkey = 'x'", (), "is no setting: the nearest is tls.key_file."),
    ({}, "", ("max_stream=1",), "--set max_stream is no setting: the nearest is max_streams."),
    ({}, "", ("zzz=1",), "`timerd config show` lists them all"),
    ({}, "", ("drain",), "--set drain has no value"),
    ({}, "drain = 10", (), "write a number with its unit in quotes, as in '90s'"),
    ({"TIMERD_DRAIN": "soon"}, "", (), "TIMERD_DRAIN: 'soon' is not a span of time"),
    ({"TIMERD_MEMORY_BUDGET": "lots"}, "", (), "TIMERD_MEMORY_BUDGET: 'lots' is not a size"),
    ({"TIMERD_MAX_STREAMS": "many"}, "", (), "TIMERD_MAX_STREAMS is 'many'"),
    ({}, "max_streams = 0", (), "timerd.toml is 0: at least 1 is allowed."),
    ({"TIMERD_PORT": "7500"}, "", (), "TIMERD_PORT in the environment is no setting"),
    ({"TIMERD_HTTP_PORT": "7401"}, "", (), "is no setting: the nearest is TIMERD_HTTP_PAGE."),
    ({"TIMERD_HEARTBEAT": "0s"}, "", (), "TIMERD_HEARTBEAT is '0s': at least 0.1s is allowed."),
    ({}, "payload_limit = '2MiB'", (), "is '2MiB': at most 1MiB is allowed."),
    ({}, "", ("cassandra.nodes=",), "--set cassandra.nodes is ''"),
    ({}, "", ("cassandra.keyspace=Timers; DROP",), "keyspace is 'Timers; DROP': write 1 to 48 of a-z"),
    ({}, "", ("cassandra.replication=east",), "replication is 'east': write 3, or east:3,west:3."),
    ({}, "", ("cassandra.replication=0",), "--set cassandra.replication is '0'"),
    ({"TIMERD_INSECURE": "perhaps"}, "", (), "TIMERD_INSECURE is 'perhaps'"),
    ({"TIMERD_SYNCHRONOUS": "off"}, "", (), "allowed are 'full' or 'normal'"),
    ({}, "tls = 'x'", (), "tls in "),
    ({}, "data = ", (), "is not TOML"),
]


@pytest.mark.parametrize(("environment", "text", "pairs", "says"), UNKNOWN, ids=[str(n) for n in range(len(UNKNOWN))])
def test_what_is_wrong_is_refused_with_a_sentence(
    tmp_path: Path, environment: dict[str, str], text: str, pairs: tuple[str, ...], says: str
) -> None:
    path = tmp_path / "timerd.toml"
    path.write_text(text)
    with pytest.raises(WrongInput) as refused:
        load(path, environment, pairs=pairs)
    assert says in str(refused.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(WrongSettings) as refused:
        load(None, {"TIMERD_DATTA": "x", "TIMERD_DRAIN": "soon"}, pairs=("look=1",))
    assert len(refused.value.problems) == 3


def test_variables_of_others_are_left_alone() -> None:
    """Those of clients, and those that Kubernetes makes for a service of this name."""
    others = ("SERVER", "TLS_KEY", "TASK_ID", "PORT", "PORT_7400_TCP_ADDR", "SERVICE_HOST", "SERVICE_PORT_GRPC")
    environment = {f"TIMERD_{name}": "tcp://10.0.0.1:7400" for name in (*others, "PEERS_SERVICE_HOST", "PEERS_PORT")}
    assert load(None, environment).config == ServerConfig()


def test_no_setting_is_hidden_by_what_belongs_to_others() -> None:
    variables = [setting.variable for setting in known()]
    assert len(set(variables)) == len(variables)
    assert not [name for name in variables if name in settings._OF_OTHERS or settings._NOT_OURS.match(f"{name}=1")]


def test_what_is_shown_can_be_given_again() -> None:
    config = load(None, {}, pairs=("look_ahead=90061ms", "payload_limit=1000", "data=here")).config
    shown = {each.variable: each.show(value_of(config, each)) for each in known()}
    again = load(None, {variable: str(value) for variable, value in shown.items() if value is not None})
    assert again.config == config


@dataclass(frozen=True, config=ConfigDict(hide_input_in_errors=True))
class WithSecret:
    password: SecretStr = SecretStr("")


def test_a_secret_is_never_shown() -> None:
    setting = next(settings_of(WithSecret))
    assert setting.is_secret
    assert setting.show(SecretStr("canary")) == HIDDEN
    assert setting.show(SecretStr("")) is None


CANARY = "canary-4711"
# Where a secret may stand, right and wrong.
SECRETS = [
    {"TIMERD_CASSANDRA_PASSWORD": CANARY},
    {"TIMERD_REDIS_PASSWORD": CANARY},
    {"TIMERD_REDIS_URL": f"redis://:{CANARY}@127.0.0.1:1"},
    {"TIMERD_REDIS_URL": f"nonsense://:{CANARY}@"},
    {"TIMERD_CASSANDRA_PASSWORT": CANARY},
]


@pytest.mark.parametrize("environment", SECRETS, ids=[str(n) for n in range(len(SECRETS))])
def test_no_command_repeats_a_secret(terminal: Terminal, environment: dict[str, str], tmp_path: Path) -> None:
    for name, value in environment.items():
        terminal.monkeypatch.setenv(name, value)
    serve = ("serve", "--data", str(tmp_path / "data"), "--listen", "nowhere")
    for command in (("config", "show"), ("config", "show", "--json"), ("config", "check"), serve):
        ran = terminal(*command)
        assert ran.out + ran.err
        assert CANARY not in ran.out + ran.err


def test_a_secret_in_a_file_that_is_wrong_is_not_repeated(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "timerd.toml"
    for text in (f"cassandra.password = ['{CANARY}']", f"cassandra.password = '{CANARY}", f"redis = '{CANARY}'"):
        path.write_text(text)
        ran = terminal("config", "check", "--config", str(path))
        assert (ran.code, CANARY in ran.out + ran.err) == (2, False), ran.err


def test_show_says_where_each_value_comes_from(terminal: Terminal, file: Path) -> None:
    terminal.monkeypatch.setenv("TIMERD_DRAIN", "4s")
    lines = {line["setting"]: line for line in terminal("config", "show", "--config", str(file), "--json").lines}
    assert lines["drain"] == {"setting": "drain", "value": "4s", "from": "environment", "variable": "TIMERD_DRAIN"}
    assert (lines["memory_budget"]["value"], lines["memory_budget"]["from"]) == ("2GiB", str(file))
    assert (lines["history_retention"]["value"], lines["history_retention"]["from"]) == ("1d", "default")
    assert "TIMERD_TLS_KEY_FILE" in terminal("config", "show", "-o", "wide").out


def test_check_says_what_serve_would_say(terminal: Terminal, tmp_path: Path) -> None:
    assert terminal("config", "check", "--json").json == {"ok": True, "given": 0}
    assert terminal("config", "check", "--set", "drain=1s").out == "The configuration is good (1 settings are given).\n"
    open_to_all = terminal("config", "check", "--set", "listen=0.0.0.0:7400", "--json")
    assert (open_to_all.code, open_to_all.json["ok"]) == (2, False)
    assert "--insecure" in open_to_all.json["problems"][0]
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_text("nonsense")
    key.write_text("nonsense")
    tls = ("--set", f"tls.certificate_file={certificate}", "--set", f"tls.key_file={key}")
    assert "is not in PEM form" in terminal("config", "check", *tls).err
    assert terminal("config", "check", "--config", str(tmp_path / "absent")).code == 2


def test_the_page_names_every_setting_with_its_variable_and_default() -> None:
    rows = {tuple(cell.strip(" `") for cell in line.split("|")[1:4]) for line in PAGE.read_text().splitlines()}
    shown = {setting: setting.show(value_of(ServerConfig(), setting)) for setting in known()}
    wanted = {(each.name, each.variable, "" if value is None else str(value)) for each, value in shown.items()}
    assert wanted - rows == set()


def test_sections_are_not_settings_of_their_own() -> None:
    names = {setting.path[0] for setting in known()}
    assert names == {field.name for field in fields(ServerConfig)}
