"""Tokens that an identity provider signs: what is believed, and what is not."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.certificates import Authority, Pair
from tests.services.access_rig import write
from timerd.adapters.json_web_tokens import FETCH_EVERY_S, LOOK_EVERY_S, FetchedKeys, JwtReader, fetched, keys_of
from timerd.client import AccessDenied, Client
from timerd.config import TOKEN_LEEWAY_S, AuthConfig, JwtConfig, ServerConfig, TlsConfig
from timerd.model.errors import StartupError
from timerd.services.transport.key_file import KeyFile
from timerd.services.transport.listen import check_listen
from timerd.services.transport.principals import Principals
from timerd.testing import Server
from timerd.worker import Worker

LATER = datetime(2030, 6, 1, tzinfo=UTC)
ISSUER, AUDIENCE = "https://id.example", "timerd"
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
STRANGER = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
KEYS: dict[str, tuple[Any, str, Any]] = {
    "r": (RSA, "RS256", RSAAlgorithm),
    "e": (EC, "ES256", ECAlgorithm),
    "d": (ED, "EdDSA", OKPAlgorithm),
}


def key_set(*names: str) -> bytes:
    """As an identity provider publishes it."""
    entries = []
    for name in names:
        private, algorithm, kind = KEYS[name]
        entry = json.loads(kind.to_jwk(private.public_key()))
        entries.append(entry | {"kid": name, "alg": algorithm, "use": "sig"})
    return json.dumps({"keys": entries}).encode()


def signed(key: str = "r", private: Any = None, algorithm: str = "", **claims: Any) -> str:  # noqa: ANN401
    said = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600, "sub": "ada", **claims}
    ours, usual, _ = KEYS[key]
    kept = {name: value for name, value in said.items() if value is not None}
    return str(jwt.encode(kept, private or ours, algorithm=algorithm or usual, headers={"kid": key}))


def headed(**header: str) -> str:
    """What was signed under another head."""
    head = jwt.utils.base64url_encode(json.dumps(header).encode()).decode()
    return ".".join((head, *signed().split(".")[1:]))


def config(keys: object) -> JwtConfig:
    return JwtConfig(issuer=ISSUER, audience=AUDIENCE, keys=str(keys))


@pytest.fixture
async def reader(tmp_path: Path) -> JwtReader:
    write(tmp_path / "keys.json", key_set(*KEYS).decode())
    reader = JwtReader(config(tmp_path / "keys.json"), KeyFile(tmp_path / "keys.json"))
    await reader.prepare(signed())
    return reader


@pytest.mark.parametrize("key", KEYS)
async def test_a_token_of_the_provider_is_believed(reader: JwtReader, key: str) -> None:
    token = signed(key)
    assert (reader.claims(token) or {})["sub"] == "ada"
    assert reader.claims(token) is reader.claims(token)


def forged(key: str) -> str:
    """Signed with the public key as if it were a shared secret."""
    public = key_set(key)
    head, body = (jwt.utils.base64url_encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": key}, {}))
    return b".".join((head, body, jwt.utils.base64url_encode(public[:32]))).decode()


WRONG: Mapping[str, str] = {
    "another key": signed(private=STRANGER),
    "an unknown key": headed(alg="RS256", kid="x"),
    "another issuer": signed(iss="https://evil.example"),
    "no issuer": signed(iss=None),
    "another audience": signed(aud="others"),
    "no audience": signed(aud=None),
    "no end": signed(exp=None),
    "its end is past": signed(exp=time.time() - TOKEN_LEEWAY_S - 5),
    "not yet": signed(nbf=time.time() + 3_600),
    "no signature": headed(alg="none", kid="r"),
    "a shared secret": forged("r"),
    "no token": "a.b.c",
    "not three parts": "abc",
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_anything_else_is_not(reader: JwtReader, wrong: str) -> None:
    assert reader.claims(WRONG[wrong]) is None


async def test_keys_that_are_gone_count_no_more(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    write(path, key_set("r").decode())
    reader = JwtReader(config(path), KeyFile(path))
    old, new = signed("r"), signed("e")
    await reader.prepare(old)
    assert reader.claims(old)
    write(path, "spoilt")
    await reader.prepare(old)
    assert reader.claims(old), "half of a change leaves the old ones in force"
    write(path, key_set("e").decode())
    await reader.prepare(new)
    assert (reader.claims(old), bool(reader.claims(new))) == (None, True)


async def test_keys_at_an_address_are_fetched_when_one_is_not_known() -> None:
    now_s, published, asked = [0.0], [key_set("r")], []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        if not published[0]:
            raise OSError("no route")
        return published[0]

    reader = JwtReader(
        config("https://id.example/keys"), FetchedKeys("https://id.example/keys", fetch, lambda: now_s[0])
    )
    await asyncio.gather(*(reader.prepare(signed("r")) for _ in range(5)))
    assert (reader.claims(signed("r")) is not None, len(asked)) == (True, 1)
    for _ in range(5):
        await reader.prepare(signed("e"))
    assert len(asked) == 1, "whatever tokens come, it is not asked all the time"
    now_s[0], published[0] = FETCH_EVERY_S, b""
    await reader.prepare(signed("e"))
    assert (reader.claims(signed("r")) is not None, len(asked)) == (True, 2)
    now_s[0], published[0] = 2 * FETCH_EVERY_S, key_set("r", "e")
    await reader.prepare(signed("e"))
    assert reader.claims(signed("e")) is not None


async def test_a_key_that_the_provider_has_withdrawn_is_dropped_though_only_others_come() -> None:
    now_s, published, ended = [0.0], [key_set("r", "e")], []

    async def fetch(_: str) -> bytes:
        return published[0]

    reader = JwtReader(
        config("https://id.example/keys"), FetchedKeys("https://id.example/keys", fetch, lambda: now_s[0])
    )
    reader.on_change(lambda: ended.append(now_s[0]))
    await reader.prepare(signed("r"))
    stolen, now_s[0], published[0] = signed("e"), LOOK_EVERY_S - 1, key_set("r")
    await reader.prepare(signed("r"))
    assert reader.claims(stolen) is not None
    now_s[0] = LOOK_EVERY_S
    await reader.prepare(signed("r"))
    assert (reader.claims(stolen), ended) == (None, [0.0, LOOK_EVERY_S])


async def test_who_has_a_known_key_does_not_wait_for_one_that_is_not() -> None:
    now_s, answer = [0.0], asyncio.Event()
    answer.set()

    async def fetch(_: str) -> bytes:
        await answer.wait()
        return key_set("r")

    reader = JwtReader(
        config("https://id.example/keys"), FetchedKeys("https://id.example/keys", fetch, lambda: now_s[0])
    )
    await reader.prepare(signed("r"))
    answer.clear()
    now_s[0] = FETCH_EVERY_S
    strange = asyncio.create_task(reader.prepare(signed("e")))
    await asyncio.sleep(0)
    await reader.prepare(signed("r"))
    assert not strange.done()
    answer.set()
    await strange


@pytest.mark.parametrize("too_much", [False, True])
async def test_a_set_that_comes_in_parts_is_read_to_its_end(too_much: bool) -> None:
    many = json.dumps({"keys": json.loads(key_set("r"))["keys"], "more": "x" * (2 << 20 if too_much else 300_000)})

    async def served(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(0, len(many), 10_000):
            await response.write(many[at : at + 10_000].encode())
        return response

    application = web.Application()
    application.router.add_get("/keys", served)
    async with TestServer(application) as provider:
        if too_much:
            with pytest.raises(ClientPayloadError, match="more than"):
                await fetched(str(provider.make_url("/keys")))
        else:
            assert list(keys_of(await fetched(str(provider.make_url("/keys"))), "/keys")) == ["r"]


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b'{"keys": 5}', b'{"keys": ["x"]}', b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AA"}]}']
)
def test_what_is_no_key_set_is_said(raw: bytes) -> None:
    with pytest.raises(StartupError, match="The JWT keys of /keys"):
        keys_of(raw, "/keys")


def test_a_key_of_an_unknown_kind_spoils_none_of_the_others() -> None:
    entries = [{"kty": "future", "kid": "f"}, *json.loads(key_set("r"))["keys"]]
    assert list(keys_of(json.dumps({"keys": entries}).encode(), "/keys")) == ["r"]


@pytest.mark.parametrize(
    ("line", "claims", "known"),
    [
        ("jwt:sub=ada", {}, True),
        ("jwt:sub=bob", {}, False),
        ("jwt:groups=ops", {"groups": ["dev", "ops"]}, True),
        ("jwt:groups=op", {"groups": ["dev", "ops"]}, False),
        ("jwt:scope=timers.write", {"scope": "timers.read timers.write"}, True),
        ("jwt:name=admin", {"name": "not admin"}, False),
        ("jwt:realm_access.roles=ops", {"realm_access": {"roles": ["ops"]}}, True),
        ("jwt:https://x.example/roles=ops", {"https://x.example/roles": ["ops"]}, True),
        ("jwt:groups=1", {"groups": 1}, False),
    ],
)
async def test_a_line_speaks_of_a_claim(
    reader: JwtReader, tmp_path: Path, line: str, claims: dict[str, Any], known: bool
) -> None:
    write(tmp_path / "principals", f"some schedule@shop {line}\n")
    found = Principals(tmp_path / "principals", reader).of_token(signed(**claims))
    assert (found is not None) == known
    assert found is None or (found.name, {str(role) for role in found.roles}) == ("jwt:ada", {"schedule@shop"})


async def test_a_caller_has_the_roles_of_all_lines_that_speak_of_it(reader: JwtReader, tmp_path: Path) -> None:
    write(tmp_path / "principals", "a schedule jwt:groups=a\nb operate,work@x jwt:groups=b\nc inspect jwt:groups=c\n")
    found = Principals(tmp_path / "principals", reader).of_token(signed(groups=["a", "b"], sub=None))
    assert found is not None
    assert (found.name, {str(role) for role in found.roles}) == ("a", {"schedule", "operate", "work@x"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"issuer": "https://id.example"}, "set all four"),
        ({"issuer": "i", "audience": "a", "keys": "http://id.example/keys"}, "plain HTTP"),
    ],
)
def test_settings_that_do_not_belong_together_are_said(tmp_path: Path, given: dict[str, str], says: str) -> None:
    auth = AuthConfig(principals_file=tmp_path / "principals", jwt=JwtConfig(**given))
    with pytest.raises(StartupError, match=says):
        check_listen(ServerConfig(auth=auth))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[Server, Authority]]:
    authority = Authority(tmp_path)
    pair: Pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    write(tmp_path / "principals", "apps schedule@default,work@default jwt:groups=apps\n")
    write(tmp_path / "keys.json", key_set("r").decode())
    auth = AuthConfig(principals_file=tmp_path / "principals", jwt=config(tmp_path / "keys.json"))
    tls = TlsConfig(certificate_file=pair.certificate, key_file=pair.key)
    async with Server(config=ServerConfig(listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=auth)) as server:
        yield server, authority


async def test_a_client_calls_with_a_signed_token(server: tuple[Server, Authority]) -> None:
    there, authority = server
    ca = authority.certificate
    async with Client(there.address, ca_file=ca, token=signed(groups=["apps"]), timeout=5) as client:
        await client.schedule("mails", b"x", at=LATER)
    for token in (signed(groups=["others"]), WRONG["another key"], WRONG["its end is past"]):
        async with Client(there.address, ca_file=ca, token=token, timeout=5) as client:
            with pytest.raises(AccessDenied, match="does not know this caller"):
                await client.get("x")


async def test_a_stream_ends_when_its_token_does(server: tuple[Server, Authority]) -> None:
    there, authority = server
    token = signed(groups=["apps"], exp=time.time() - TOKEN_LEEWAY_S + 2)
    worker = Worker(there.address, ca_file=authority.certificate, token=token)
    worker.on("mails")(lambda delivery: None)
    with pytest.raises(AccessDenied):
        await worker.run()
