"""Who may call by HTTP: no page of a stranger, nobody without the role, no more at a time than there is room for."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from tests.certificates import Authority, Pair
from tests.services.access_rig import proof
from tests.services.api_rig import FakeVerbs, running
from tests.web.rig import CONFIG, HTTP, http_port, serving
from timerd.config import AuthConfig, HttpConfig, ServerConfig, TlsConfig
from timerd.model.errors import Overloaded
from timerd.services.transport.tls import TlsFiles, http_context
from timerd.testing import Server
from timerd.web.guard import name_of
from timerd.web.turnstile import Turnstile

SCHEDULE = {"template": {"queue": "mails"}, "delay": "3600s"}
COUNT, LETTERS = "TimerService/Count", "TimerService/ListDeadLetters"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


# -- pages of strangers -----------------------------------------------------------------------------------------------

STRANGERS: list[Mapping[str, str]] = [
    {"Host": "evil.example"},
    {"Host": "evil.example:7401"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": ""},
    {"Host": "192.168.0.7:7401"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Host": "localhost:7401", "Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
]
KNOWN: list[Mapping[str, str]] = [
    {},
    {"Host": "localhost"},
    {"Host": "LOCALHOST:7401", "Origin": "http://localhost:7401", "Sec-Fetch-Site": "same-origin"},
    {"Host": "[::1]:7401", "Origin": "https://[::1]:7401"},
    {"Host": "timers.example"},
    {"Host": "Timers.Example:443", "Origin": "https://timers.example:443"},
]


async def test_a_page_of_a_stranger_changes_nothing() -> None:
    async with serving(replace(CONFIG, http=replace(HTTP, names=("timers.example",)))) as rig:
        for headers in STRANGERS:
            answer = await rig.caller.rpc("TimerService/Schedule", SCHEDULE, headers)
            assert (answer.status, answer.json["code"]) == (403, "permission_denied"), headers
            assert answer.reason in ("HOST_UNKNOWN", "ORIGIN_UNKNOWN")
        assert (await rig.caller.rpc(COUNT, {})).json == {"estimated": True}
        for headers in KNOWN:
            assert (await rig.caller.rpc("TimerService/Schedule", SCHEDULE, headers)).status == 200, headers
        assert (await rig.caller.ask("GET", "/version", headers={"Host": "evil.example"})).status == 200


def test_a_name_is_what_stands_before_the_port() -> None:
    names = {"a.example:80": "a.example", "A.example": "a.example", "[::1]:7": "::1", "[::1]": "::1", "": ""}
    assert {host: name_of(host) for host in names} == names


# -- settings ---------------------------------------------------------------------------------------------------------


async def test_a_setting_turns_it_off() -> None:
    async with serving(replace(CONFIG, http=replace(HTTP, calls=False))) as rig:
        assert (await rig.caller.rpc(COUNT, {})).status == 404
        assert (await rig.caller.ask("GET", "/version")).status == 200


async def test_plain_http_beyond_loopback_serves_nobody_but_who_watches() -> None:
    http = HttpConfig(listen="0.0.0.0:0", insecure=True)
    async with serving(replace(CONFIG, http=http)) as rig:
        answer = await rig.caller.rpc(COUNT, {})
        assert (answer.status, answer.reason) == (403, "PLAIN_HTTP")
        assert (await rig.caller.ask("GET", "/version")).status == 200
    async with serving(replace(CONFIG, http=http, insecure=True)) as rig:
        assert (await rig.caller.rpc(COUNT, {})).status == 200


# -- roles ------------------------------------------------------------------------------------------------------------


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def tls_config(authority: Authority, folder: Path, *, with_clients: bool) -> ServerConfig:
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    principals = folder / "principals"
    principals.write_text(
        f"mails schedule,work {proof('t-mails')}\nops operate {proof('t-ops')}\norders schedule cert:orders\n"
    )
    client_ca = authority.certificate if with_clients else None
    tls = TlsConfig(certificate_file=pair.certificate, key_file=pair.key, client_ca_file=client_ca)
    return replace(CONFIG, tls=tls, auth=AuthConfig(principals_file=principals))


def trusting(authority: Authority, shown: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if shown is not None:
        context.load_cert_chain(shown.certificate, shown.key)
    return context


async def test_a_token_gives_its_roles(authority: Authority, tmp_path: Path) -> None:
    config = tls_config(authority, tmp_path, with_clients=False)
    tls = http_context(TlsFiles(config.tls), config.tls)
    async with (
        Server(config=config) as server,
        http_port(config, server.node.server.local, tls, trusting(authority)) as caller,
    ):
        assert (await caller.rpc("TimerService/Schedule", SCHEDULE, bearer("t-mails"))).status == 200
        assert (await caller.rpc(LETTERS, {}, bearer("t-ops"))).status == 200
        denied = await caller.rpc(LETTERS, {}, bearer("t-mails"))
        assert (denied.status, denied.reason) == (403, "ROLE_MISSING")
        assert "mails may not call ListDeadLetters" in denied.json["message"]
        for headers in ({}, bearer(""), bearer("t-nobody"), {"Authorization": "Basic dC1tYWlscw=="}):
            unknown = await caller.rpc(COUNT, {}, headers)
            assert (unknown.status, unknown.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert (await caller.ask("GET", "/version")).status == 200


async def test_where_callers_show_certificates_they_do_by_http(authority: Authority, tmp_path: Path) -> None:
    config = tls_config(authority, tmp_path, with_clients=True)
    tls = http_context(TlsFiles(config.tls), config.tls)
    orders, strange = authority.sign("orders"), authority.sign("strange")
    forged = Authority(tmp_path, "another").sign("orders")
    async with Server(config=config) as server:
        local = server.node.server.local
        async with http_port(config, local, tls, trusting(authority, orders)) as caller:
            assert (await caller.rpc("TimerService/Schedule", SCHEDULE)).status == 200
            assert (await caller.rpc(LETTERS, {})).reason == "ROLE_MISSING"
        async with http_port(config, local, tls, trusting(authority, strange)) as caller:
            assert (await caller.rpc(COUNT, {})).status == 401
            assert (await caller.rpc(COUNT, {}, bearer("t-mails"))).status == 200
        async with http_port(config, local, tls, trusting(authority)) as caller:
            answer = await caller.rpc(COUNT, {}, bearer("t-mails"))
            assert (answer.status, answer.reason) == (401, "UNAUTHENTICATED")
            assert (await caller.ask("GET", "/version")).status == 200
        async with http_port(config, local, tls, trusting(authority, forged)) as caller:
            with pytest.raises(aiohttp.ClientError):
                await caller.rpc(COUNT, {})


# -- how many ---------------------------------------------------------------------------------------------------------


async def test_a_turnstile_lets_four_in_and_ends_the_line() -> None:
    turnstile = Turnstile(at_once=2, waiting=1)
    inside, go_on = 0, asyncio.Event()

    async def request() -> None:
        nonlocal inside
        with turnstile.place() as place:
            async with place.turn():
                inside += 1
                await go_on.wait()

    calls = [asyncio.create_task(request()) for _ in range(3)]
    await asyncio.sleep(0)
    assert (inside, turnstile.entered) == (2, 3)
    with pytest.raises(Overloaded, match="3 HTTP requests are waiting"), turnstile.place():
        pass
    go_on.set()
    await asyncio.gather(*calls)
    assert (inside, turnstile.entered) == (3, 0)


async def test_who_leaves_the_line_makes_room_once() -> None:
    turnstile = Turnstile(at_once=1, waiting=0)
    with turnstile.place() as place:
        place.leave()
        assert turnstile.entered == 0
    assert turnstile.entered == 0


async def test_at_most_four_are_worked_on_and_the_others_come_after_them() -> None:
    entered, gate, verbs = 0, asyncio.Event(), FakeVerbs()

    async def wait() -> None:
        nonlocal entered
        entered += 1
        await gate.wait()

    verbs.gate = wait
    async with running(verbs) as rig, http_port(CONFIG, rig.server.local) as caller:
        asked = [asyncio.create_task(caller.rpc("TimerService/Schedule", SCHEDULE)) for _ in range(100)]
        busy, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        while len(busy) < 32:
            busy |= (await asyncio.wait(set(asked) - busy, return_when=asyncio.FIRST_COMPLETED))[0]
        assert {(each.result().status, each.result().reason) for each in busy} == {(429, "HTTP_BUSY")}
        assert {each.result().headers["Retry-After"] for each in busy} == {"1"}
        assert entered == 4
        gate.set()
        assert sorted(answer.status for answer in await asyncio.gather(*asked)) == [200] * 68 + [429] * 32


async def test_a_call_has_no_more_time_than_it_says_and_is_carried_through() -> None:
    gate, verbs = asyncio.Event(), FakeVerbs()
    verbs.gate = gate.wait
    async with running(verbs) as rig, http_port(CONFIG, rig.server.local) as caller:
        late = await caller.rpc("TimerService/Schedule", SCHEDULE, {"Connect-Timeout-Ms": "50"})
        assert (late.status, late.json["code"]) == (504, "deadline_exceeded")
        gate.set()
        await asyncio.sleep(0)
    assert len(verbs.views) == 1
