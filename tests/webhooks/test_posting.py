"""The client of HTTP on real sockets: it connects to the address that was judged, and to no other."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.certificates import Authority
from tests.webhooks.posted import ALLOWED, target
from tests.webhooks.receiver import Received, receiving, statuses
from timerd.adapters.http_posting import AiohttpPoster, open_poster
from timerd.core.webhooks.addresses import AddressRules
from timerd.model.errors import StartupError
from timerd.model.webhooks import ERROR_BYTES, NoAnswer


class ChangingNames(AbstractResolver):
    """A name server that gives another answer each time: rebinding. The last one stays."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answer = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        return [
            ResolveResult(
                hostname=host, host=each, port=port, family=socket.AF_INET, proto=0, flags=socket.AI_NUMERICHOST
            )
            for each in answer
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def post(poster: AiohttpPoster, timeout_ms: int = 10_000) -> int | str:
    """The status, or why there was none."""
    try:
        return (await poster.post({}, b"x", timeout_ms)).status
    except NoAnswer as error:
        return str(error)


async def ask(url: str, rules: AddressRules = ALLOWED, resolver: AbstractResolver | None = None) -> int | str:
    poster = AiohttpPoster(target(url), rules.objection, resolver)
    try:
        return await post(poster)
    finally:
        await poster.close()


async def test_what_is_allowed_is_reached() -> None:
    async with receiving() as receiver:
        assert await ask(receiver.url) == 204
        assert (receiver.connections, receiver.got[0].headers["Host"]) == (1, f"127.0.0.1:{receiver.port}")


FORMS = ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"]


@pytest.mark.parametrize("host", FORMS)
async def test_no_form_of_an_address_of_loopback_is_connected_to(host: str) -> None:
    """The listener takes whatever comes to the machine; nothing does."""
    async with receiving(host="0.0.0.0") as receiver:
        said = await ask(f"http://{host}:{receiver.port}/hook", AddressRules())
        assert isinstance(said, str)
        assert receiver.connections == 0


async def test_it_is_said_which_address_was_refused() -> None:
    async with receiving() as receiver:
        said = await ask(receiver.url, AddressRules())
        assert "127.0.0.1 is loopback, and webhooks may not connect to it" in str(said)


async def test_a_name_that_changes_its_address_is_judged_with_each_connection() -> None:
    async with receiving() as receiver, receiving(host="127.0.0.2", port=receiver.port) as inside:
        names = ChangingNames(["127.0.0.1"], ["127.0.0.2"])
        url = f"http://hooks.example.com:{receiver.port}/hook"
        assert await ask(url, resolver=names) == 204
        assert receiver.got[0].headers["Host"] == f"hooks.example.com:{receiver.port}"
        said = await ask(url, resolver=names)
        assert "127.0.0.2 is loopback, and webhooks may not connect to it" in str(said)
        assert (names.asked, receiver.connections, inside.connections) == (2, 1, 0)


async def test_a_name_is_looked_up_once_for_a_connection() -> None:
    """So the address that is connected to is the one that was judged."""
    async with receiving() as receiver, receiving(host="127.0.0.2", port=receiver.port) as inside:
        names = ChangingNames(["127.0.0.1"], ["127.0.0.2"], ["127.0.0.2"])
        assert await ask(f"http://hooks.example.com:{receiver.port}/", resolver=names) == 204
        assert (names.asked, receiver.connections, inside.connections) == (1, 1, 0)


async def test_of_several_addresses_those_that_are_forbidden_are_left_out() -> None:
    async with receiving() as receiver, receiving(host="127.0.0.2", port=receiver.port) as inside:
        names = ChangingNames(["127.0.0.2", "127.0.0.1", "127.0.0.2"])
        assert await ask(f"http://hooks.example.com:{receiver.port}/", resolver=names) == 204
        assert (receiver.connections, inside.connections) == (1, 0)


async def test_no_redirect_is_followed() -> None:
    async with receiving() as inside:
        async with receiving(statuses(307, headers={"Location": inside.url})) as receiver:
            assert await ask(receiver.url) == 307
        assert inside.connections == 0


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver, receiving() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert await ask(receiver.url) == 204
        assert proxy.connections == 0


async def test_cookies_are_not_kept() -> None:
    async with receiving(statuses(200, headers={"Set-Cookie": "a=b"})) as receiver:
        poster = AiohttpPoster(target(receiver.url), ALLOWED.objection)
        assert [await post(poster) for _ in range(2)] == [200, 200]
        await poster.close()
        assert "Cookie" not in receiver.got[1].headers
        assert receiver.connections == 1


async def test_of_an_answer_without_an_end_the_beginning_is_read() -> None:
    async def endless(_: Received) -> web.Response:
        return web.Response(status=500, body=b"x" * (8 << 20))

    async with receiving(endless) as receiver:
        poster = AiohttpPoster(target(receiver.url), ALLOWED.objection)
        answer = await poster.post({}, b"x", 60_000)
        await poster.close()
        assert (answer.status, answer.body) == (500, b"x" * ERROR_BYTES)


async def test_an_answer_that_is_packed_is_not_unpacked() -> None:
    """A few bytes could become gigabytes."""
    packed = statuses(500, headers={"Content-Encoding": "gzip"}, text="no gzip at all")
    async with receiving(packed) as receiver:
        assert await ask(receiver.url) == 500
        assert receiver.got[0].headers["Accept-Encoding"] == "identity"


async def test_bytes_that_are_no_http_are_no_answer() -> None:
    async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        writer.close()

    listening = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        assert str(await ask(f"http://127.0.0.1:{port}/")).startswith("No answer: ")


async def test_a_receiver_that_does_not_end_its_answer_in_time() -> None:
    writers = []

    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")

    listening = await asyncio.start_server(trickle, "127.0.0.1", 0)
    poster = AiohttpPoster(target(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"), ALLOWED.objection)
    assert await post(poster, 200) == "No answer within 0.2 s."
    await poster.close()
    for writer in writers:
        writer.close()
    listening.close()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_the_certificate_is_that_of_the_name_whatever_the_address(authority: Authority) -> None:
    """Connected is to the address that was judged; name and certificate are those of the URL."""
    pair = authority.sign("hooks.example.com")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    seen: list[str | None] = []
    tls.sni_callback = lambda _, name, __: seen.append(name)
    async with receiving(tls=tls) as receiver:
        said = []
        for host in ("hooks.example.com", "other.example.com"):
            url = f"https://{host}:{receiver.port}/hook"
            named = target(url, ca_file=str(authority.certificate))
            poster = AiohttpPoster(named, ALLOWED.objection, ChangingNames(["127.0.0.1"]))
            said.append(await post(poster))
            await poster.close()
        assert said[0] == 204
        assert "certificate" in str(said[1])
        assert seen == ["hooks.example.com", "other.example.com"]
        assert len(receiver.got) == 1


async def test_a_certificate_of_nobody_known_is_refused(authority: Authority) -> None:
    pair = authority.sign("hooks.example.com")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair.certificate, pair.key)
    async with receiving(tls=tls) as receiver:
        url = f"https://hooks.example.com:{receiver.port}/"
        assert "certificate" in str(await ask(url, resolver=ChangingNames(["127.0.0.1"])))
        assert receiver.got == []


async def test_a_file_of_authorities_that_is_none_is_said_at_the_start(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.pem", tmp_path / "nonsense.pem"):
        if path.name != "absent.pem":
            path.write_text("nonsense")
        with pytest.raises(StartupError, match="Cannot read the certificates of"):
            open_poster(ALLOWED.objection, target("https://hooks.example.com/", ca_file=str(path)))
