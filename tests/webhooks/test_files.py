"""The files of targets and secrets: what is wrong is said before anything starts, and no secret is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Terminal, terminal
from tests.webhooks.receiver import secret_of
from timerd.config import WebhooksConfig
from timerd.model.errors import StartupError
from timerd.model.webhooks import WebhookTarget
from timerd.services.webhooks.secret_file import read_secrets
from timerd.services.webhooks.targets_file import read_targets

__all__ = ["terminal"]
CONFIG = WebhooksConfig(hosts=("hooks.example.com", "127.0.0.1"))
URL = 'url = "https://hooks.example.com/a"\n'
GOOD = f'{URL}secret_file = "/secrets/mails"\n'


def read(folder: Path, text: str) -> list[WebhookTarget]:
    path = folder / "webhooks.toml"
    path.write_text(text)
    return read_targets(WebhooksConfig(targets_file=path, hosts=CONFIG.hosts))


def test_without_a_file_there_are_none() -> None:
    assert read_targets(CONFIG) == []


def test_a_table_is_a_target(tmp_path: Path) -> None:
    first, second = read(
        tmp_path,
        f"[mails]\n{GOOD}"
        f'["a/b:c"]\n{GOOD}queue = "d/e"\nnamespace = "shop"\nin_flight = 3\nconnect_timeout_s = 60\ntimeout_s = 7.5\n'
        'reject_statuses = [400, 422]\nca_file = "/ca.pem"\n',
    )
    url, secret_file = "https://hooks.example.com/a", "/secrets/mails"
    assert first == WebhookTarget(namespace="default", queue="mails", url=url, secret_file=secret_file)
    assert second == WebhookTarget(
        namespace="shop",
        queue="d/e",
        url=url,
        secret_file=secret_file,
        in_flight=3,
        connect_timeout_ms=7_500,
        timeout_ms=7_500,
        reject_statuses=frozenset((400, 422)),
        ca_file="/ca.pem",
    )


WRONG = [
    ("mails = 1", "mails stands outside of a table: write [QUEUE]"),
    ("[mails", "is not TOML"),
    (f"[mails]\n{GOOD}timeout = 5", "[mails]: timeout is no setting: the nearest is timeout_s."),
    (f"[mails]\n{GOOD}zzz = 5", "zzz is no setting: there are queue, namespace,"),
    ("[mails]\n", "[mails]: url is missing."),
    (f"[mails]\n{URL}", "[mails]: secret_file is missing."),
    ("[mails]\nurl = 5", "url is no text: write it in quotes."),
    ('[mails]\nurl = "http://hooks.example.com/"\n', "url is plain http: write https, or add hooks.example.com"),
    ('[mails]\nurl = "https://127.0.0.2/canary-4711"\n', "url leads to 127.0.0.2, which is not in webhooks.hosts"),
    (f"[mails]\n{GOOD}in_flight = 0", "in_flight is 0: write a number above 0, 1,000 at most."),
    (f"[mails]\n{GOOD}in_flight = 2.5", "in_flight is 2.5: write a whole number."),
    (f"[mails]\n{GOOD}in_flight = true", "in_flight is True: write a number"),
    (f'[mails]\n{GOOD}timeout_s = "5s"', "timeout_s is '5s': write a number above 0, 600 at most."),
    (f"[mails]\n{GOOD}timeout_s = nan", "timeout_s is nan: write a number above 0"),
    (f"[mails]\n{GOOD}reject_statuses = 400", "reject_statuses is 400: write a list of statuses from 400 to 599"),
    (f"[mails]\n{GOOD}reject_statuses = [302]", "reject_statuses is [302]: write a list"),
    (f'["a b"]\n{GOOD}', "The queue 'a b' is not allowed: use 1 to 128 characters of"),
    (f'[mails]\n{GOOD}namespace = "(x)"', "The namespace '(x)' is not allowed"),
    (f'[a]\n{GOOD}queue = "b"\n[b]\n{GOOD}', "the queue 'b' of the namespace 'default' has two targets"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(StartupError) as refused:
        read(tmp_path, text)
    assert says in str(refused.value)
    assert str(tmp_path / "webhooks.toml") in str(refused.value)
    assert "canary-4711" not in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="Cannot read the file of webhook targets"):
        read_targets(WebhooksConfig(targets_file=tmp_path / "absent.toml"))


SECRETS = [
    ("", "holds no secret: write whsec_ and base64 on a line, the newest first."),
    ("# a remark\n\n", "holds no secret"),
    ("whsec_canary4711\n", "line 1: write whsec_ and the base64 of 24 to 64 random bytes."),
    (f"{secret_of('one')}\ncanary4711\n", "line 2: write whsec_"),
]


@pytest.mark.parametrize(("text", "says"), SECRETS, ids=[str(number) for number in range(len(SECRETS))])
def test_what_is_wrong_with_a_secret_is_said_without_it(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "secrets"
    path.write_text(text)
    with pytest.raises(StartupError) as refused:
        read_secrets(path)
    assert says in str(refused.value)
    assert "canary4711" not in str(refused.value)


def test_config_check_reads_them_too(terminal: Terminal, tmp_path: Path) -> None:
    secret, targets = tmp_path / "secret", tmp_path / "webhooks.toml"
    targets.write_text(f'[mails]\n{URL}secret_file = "{secret}"\n')
    given = ("--set", f"webhooks.targets_file={targets}", "--set", "webhooks.hosts=hooks.example.com")
    ran = terminal("config", "check", *given)
    assert (ran.code, f"Cannot read the file of webhook secrets {secret}" in ran.err) == (2, True)
    secret.write_text(secret_of("one"))
    assert terminal("config", "check", *given).code == 0
    assert "webhooks.hosts: add it there" in terminal("config", "check", *given[:2]).err


SETTINGS = [
    ("webhooks.private_networks=10.0.0.0/8,ten", "is '10.0.0.0/8,ten': write networks as 10.1.0.0/16 or fd00::/8."),
    ("webhooks.hosts=https://hooks.example.com", "write names in lower case, as hooks.example.com"),
    ("webhooks.insecure_hosts=hooks.example.com:80", "write names in lower case"),
    ("webhooks.host=a", "the nearest is webhooks.hosts"),
]


@pytest.mark.parametrize(("setting", "says"), SETTINGS)
def test_settings_that_are_wrong(terminal: Terminal, setting: str, says: str) -> None:
    ran = terminal("config", "check", "--set", setting)
    assert (ran.code, says in ran.err) == (2, True), ran.err
