"""A short route: one line of curl for what callers and workers do most."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from google.protobuf.message import Message

from timerd.model.errors import Invalid
from timerd.web.front import HttpCall

JSON = "application/json"
Words = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ShortRoute:
    """`query`: name -> what it says; other names are refused, and those that come twice. `body`: what is sent, in
    words. `is_endless`: it is answered line by line, until its caller goes."""

    verb: str
    path: str
    answer: Callable[[HttpCall], Awaitable[object]]
    summary: str
    query: Words
    body: str = ""
    is_endless: bool = False

    async def respond(self, call: HttpCall) -> web.StreamResponse:
        """Raises NotStored, or CallFailure."""
        if unknown := set(call.request.query) - {*self.query, "namespace"}:
            raise Invalid(
                f"{sorted(unknown)[0]!r:.60} is no parameter of this route: use {_listed([*self.query, 'namespace'])}.",
                "query",
                "UNKNOWN_PARAMETER",
            )
        if twice := [name for name in (*self.query, "namespace") if len(call.request.query.getall(name, ())) > 1]:
            raise Invalid(f"{twice[0]} stands twice in the query: give it once.", "query", "REPEATED_PARAMETER")
        try:
            answer = await self.answer(call)
        except UnicodeError:
            raise Invalid("A header or a name is no UTF-8: texts are.", "", "MALFORMED") from None
        if isinstance(answer, web.StreamResponse):
            return answer
        text = json.dumps(answer, ensure_ascii=False) + "\n"
        return web.Response(body=text.encode(errors="replace"), content_type=JSON)


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)


def namespace_of(call: HttpCall) -> str:
    return call.request.query.get("namespace", "")


def path_text(call: HttpCall, name: str) -> str:
    return call.request.match_info[name]


def json_body(call: HttpCall) -> dict[str, Any]:
    """Raises Invalid."""
    if call.request.content_type != JSON:
        raise Invalid(f"The body is JSON: say so with Content-Type: {JSON} (curl --json).", "", "MALFORMED")
    try:
        body = json.loads(call.body)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Invalid('The body is no JSON in braces, as {"ack_token": "..."}.', "", "MALFORMED")
    return body


def only(body: Mapping[str, Any], allowed: Collection[str]) -> None:
    """Raises Invalid where the body has another field."""
    if unknown := body.keys() - allowed:
        raise Invalid(f"{sorted(unknown)[0]!r:.60} is no field here: use {_listed(allowed)}.", "", "MALFORMED")


async def ask(call: HttpCall, method: str, request: Message) -> Any:  # noqa: ANN401 - the reply of that method
    """`method` as Service/Method. Raises CallFailure."""
    return await call.rpc(f"/timerd.v1.{method}", request.SerializeToString())
