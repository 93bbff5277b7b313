"""The start with a Redis: one that is away is no reason not to serve, one that refuses is told in a sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from tests.engines.redis_server import RedisServer
from tests.process.children import run_cli
from timerd.bootstrap import open_hints
from timerd.commands.failures import WrongInput
from timerd.commands.serve import check_store
from timerd.config import RedisConfig, ServerConfig
from timerd.demo.processes import free_port
from timerd.model.errors import StartupError

CANARY = "open-sesame"
WRONG = "wrong-canary"


def config(url: str, user: str = "", password: str = "") -> ServerConfig:
    redis = RedisConfig(url=SecretStr(url), user=user, password=SecretStr(password))
    return ServerConfig(store="cassandra", redis=redis)


async def refused(url: str, user: str = "", password: str = "") -> str:
    with pytest.raises(StartupError) as raised:
        await open_hints(config(url, user, password))
    said = str(raised.value)
    assert not [secret for secret in (CANARY, WRONG) if secret in said]
    assert said.endswith(".")
    return said


async def serves(url: str, user: str = "", password: str = "") -> bool:
    hints = await open_hints(config(url, user, password))
    if hints is not None:
        await hints.close()
    return hints is not None


class TestWithAPassword:
    @pytest.fixture
    def redis_options(self) -> tuple[str, ...]:
        return ("--requirepass", CANARY)

    async def test_a_missing_or_wrong_one_is_told(self, redis_server: RedisServer) -> None:
        url, place = redis_server.url, f"Redis at 127.0.0.1:{redis_server.port} "
        assert (await refused(url)).startswith(
            f"{place}asks for a password, and none was given. Put the right one into "
        )
        assert (await refused(url, password=WRONG)).startswith(f"{place}does not take the password that was given.")
        inside = url.replace("//", f"//:{WRONG}@")
        assert (await refused(inside)).startswith(f"{place}does not take the password that was given.")

    async def test_the_right_one_is_taken_from_either_place(self, redis_server: RedisServer) -> None:
        assert await serves(redis_server.url, password=CANARY)
        assert await serves(redis_server.url.replace("//", f"//:{CANARY}@"))
        assert await serves(redis_server.url.replace("//", f"//:{WRONG}@"), password=CANARY)

    def test_serve_says_it_in_one_line_and_ends(self, redis_server: RedisServer) -> None:
        where = ("--store", "cassandra", "--cassandra", "127.0.0.1:1", "--listen", "127.0.0.1:0")
        ran = run_cli("serve", *where, "--redis", redis_server.url)
        assert ran.returncode == 1
        assert ran.stderr.startswith(f"timerd: Redis at 127.0.0.1:{redis_server.port} asks for a password")
        assert ran.stderr.count("\n") == 1


class TestWithAUser:
    @pytest.fixture
    def redis_options(self) -> tuple[str, ...]:
        free = ("+publish", "+subscribe", "+unsubscribe", "+ping", "resetchannels", "&timerd:*", f">{CANARY}")
        return ("--user", "timerd", "on", *free, "--user", "reader", "on", "+get", "~*", f">{CANARY}")

    async def test_what_the_sentence_asks_for_is_enough(self, redis_server: RedisServer) -> None:
        assert await serves(redis_server.url, "timerd", CANARY)
        said = await refused(redis_server.url, "reader", CANARY)
        assert "may not publish and subscribe" in said
        assert "channels timerd:*" in said


class TestWithAFile:
    @pytest.fixture
    def redis_options(self, tmp_path: Path) -> tuple[str, ...]:
        return ("--unixsocket", str(tmp_path / "redis.sock"))

    async def test_it_is_reached_by_that_as_well(self, redis_server: RedisServer, tmp_path: Path) -> None:
        assert await serves(f"unix://{tmp_path / 'redis.sock'}")


def test_settings_that_mean_nothing_are_refused_before_anything_is_called() -> None:
    with pytest.raises(WrongInput, match="begins with redis://"):
        check_store(config("http://host"))
    with pytest.raises(WrongInput, match="on SQLite there is one"):
        check_store(replace(config("redis://host"), store="sqlite"))


async def test_a_password_where_there_is_none_is_told(redis_server: RedisServer) -> None:
    assert "has no password, and one was given" in await refused(redis_server.url, password=CANARY)


async def test_one_that_is_away_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    place = f"127.0.0.1:{free_port()}"
    assert await serves(f"redis://:{CANARY}@{place}")
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith(f"No Redis answers at {place} (")
    assert "serves without it" in warning
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    "url", ["redis://", "http://host", f"redis://:{CANARY}@host:port", "host:6379", "redis://127.0.0.1:1?no=option"]
)
async def test_a_url_that_is_none_is_told_without_it(url: str) -> None:
    assert (await refused(url)).startswith("The URL of Redis cannot be used: write redis://HOST:PORT")


async def test_without_a_url_there_is_no_second_way() -> None:
    assert await open_hints(ServerConfig()) is None
