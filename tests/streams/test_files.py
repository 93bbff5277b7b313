"""The file of streams: what is wrong is said before anything starts, and no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Terminal, terminal
from timerd.config import StreamsConfig
from timerd.model.errors import StartupError
from timerd.model.streams import StreamTarget
from timerd.services.streams.targets_file import read_password, read_streams

__all__ = ["terminal"]
URL = "redis://127.0.0.1:6379"
GOOD = f'url = "{URL}"\n'


def read(folder: Path, text: str) -> list[StreamTarget]:
    path = folder / "streams.toml"
    path.write_text(text)
    return read_streams(StreamsConfig(targets_file=path))


def test_without_a_file_there_are_none() -> None:
    assert read_streams(StreamsConfig()) == []


def test_a_table_is_a_stream(tmp_path: Path) -> None:
    first, second = read(
        tmp_path,
        f"[orders]\n{GOOD}"
        '["a/b"]\nurl = "rediss://cache.example.com"\nqueue = "d/e"\nnamespace = "shop"\nstream = "shop:{d}"\n'
        'user = "timerd"\npassword_file = "/p"\nmax_length = 1000\nrepeats_known_s = 0\n'
        "in_flight = 7\ntimeout_s = 0.5\n",
    )
    assert first == StreamTarget(namespace="default", queue="orders", url=URL, stream="orders")
    assert second == StreamTarget(
        namespace="shop",
        queue="d/e",
        url="rediss://cache.example.com",
        stream="shop:{d}",
        user="timerd",
        password_file="/p",
        max_length=1_000,
        repeats_known_s=0,
        in_flight=7,
        timeout_ms=500,
    )


WRONG = [
    ("orders = 1", "orders stands outside of a table: write [QUEUE]"),
    ("[orders", "is not TOML"),
    (f"[orders]\n{GOOD}maxlen = 5", "[orders]: maxlen is no setting: the nearest is max_length."),
    ("[orders]\n", "[orders]: url is missing."),
    ('[orders]\nurl = "http://a"\n', "url is no address of Redis: write redis://HOST:PORT"),
    ('[orders]\nurl = "redis://"\n', "url is no address of Redis"),
    ('[orders]\nurl = "redis://:secret-4711@a"\n', "url has a user or a password in it: write them as user and"),
    ('[orders]\nurl = "redis://a?password=secret-4711"\n', "url has a user or a password in it"),
    (f'[orders]\n{GOOD}stream = ""', "stream is empty: write the key of the stream"),
    (f"[orders]\n{GOOD}in_flight = 0", "in_flight is 0: write a number above 0, 100,000 at most."),
    (f"[orders]\n{GOOD}max_length = -1", "max_length is -1: write a number above 0"),
    (f"[orders]\n{GOOD}max_length = false", "max_length is False: write a number above 0"),
    (f"[orders]\n{GOOD}repeats_known_s = 0.5", "repeats_known_s is 0.5: write a whole number."),
    (f"[orders]\n{GOOD}timeout_s = 601", "timeout_s is 601: write a number above 0, 600 at most."),
    (f'[a]\n{GOOD}queue = "b"\n[b]\n{GOOD}', "the queue 'b' of the namespace 'default' has two targets"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(StartupError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_password_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(StartupError, match=r"as (the|its) first line"):
        read_password(str(path))


def test_the_configuration_is_checked_with_it(tmp_path: Path, terminal: Terminal) -> None:
    path = tmp_path / "streams.toml"
    path.write_text(f'[orders]\n{GOOD}password_file = "{tmp_path}/none"\n')
    ran = terminal("config", "check", "--set", f"streams.targets_file={path}")
    assert ran.code == 2
    assert "Cannot read the file of a stream's password" in ran.err
