"""From `timerd token` to a server that knows its callers, by the shell alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.cli.conftest import Terminal
from tests.cli.served import Server, timerd


@pytest.mark.process
def test_a_token_is_made_known_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    made = timerd("token", "mails", "--roles", "schedule", "--json").json
    principals, token_file = tmp_path / "principals", tmp_path / "token"
    principals.write_text(made["principal"] + "\n")
    token_file.write_text(made["token"])
    tls = ("--tls-cert", str(pair.certificate), "--tls-key", str(pair.key))
    server = Server(tmp_path, *tls, "--set", f"auth.principals_file={principals}")
    common = ("--server", server.address, "--tls-ca", str(authority.certificate))
    try:
        assert timerd("schedule", "mails", "x", "--in", "1h", *common, "--token-file", str(token_file)).code == 0
        refused = timerd("schedule", "mails", "x", "--in", "1h", *common)
        assert (refused.code, refused.out) == (1, "")
        assert "--token-file" in refused.err
        monkeypatch.setenv("TIMERD_TOKEN", made["token"])
        assert timerd("schedule", "mails", "x", "--in", "1h", *common).code == 0
        assert "mails may not call GetServerInfo: it needs the role operate" in timerd("doctor", *common).err
    finally:
        code, out, err = server.stop()
    assert code == 0
    assert made["token"] not in out + err


def test_only_the_hash_is_for_the_server(terminal: Terminal) -> None:
    made = terminal("token", "ops", "--roles", "schedule,operate", "--json").json
    assert re.fullmatch(r"ops schedule,operate sha256:[0-9a-f]{64}", made["principal"])
    assert made["token"] not in made["principal"]
    assert terminal("token", "ops", "--json").json["token"] != made["token"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("token", "ops", "--roles", "everything"), "everything is no role: write one of schedule, work"),
        (("token", "two words"), "is no name for a caller"),
        (("get", "x", "--token-file", "absent"), "There is no file absent"),
    ],
)
def test_wrong_input_is_a_sentence(terminal: Terminal, arguments: tuple[str, ...], says: str) -> None:
    ran = terminal(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
