"""What is no route: the sentence says what there is instead."""

from __future__ import annotations

from difflib import get_close_matches

from aiohttp import hdrs, web
from grpc import StatusCode

from timerd.model.errors import NotFound
from timerd.services.transport.local_calls import CallFailure
from timerd.web.errors import response_of
from timerd.web.front import HttpCall

UNKNOWN_PATH = "/{rest:.*}"
MOST_CHARS = 200
ALIKE = 0.8


async def answer_unknown(call: HttpCall) -> web.StreamResponse:
    """Raises NotFound where the path has no route, whatever the verb."""
    request = call.request
    allowed = await _allowed(request)
    if not allowed:
        raise NotFound(
            f"There is no path {request.path[:MOST_CHARS]!r}: {_near(request)}GET /openapi.json lists those that there "
            "are.",
            "PATH_UNKNOWN",
        )
    verbs = ", ".join(sorted(allowed))
    sentence = f"{request.path[:MOST_CHARS]} is not asked by {request.method[:MOST_CHARS]}, but by {verbs}."
    response = response_of(CallFailure(StatusCode.UNIMPLEMENTED, sentence))
    response.set_status(405)
    response.headers["Allow"] = verbs
    return response


def _near(request: web.Request) -> str:
    """Those of calls that share the most words with it, and have names where a caller puts in what is meant."""
    asked = _words(request.path[:MOST_CHARS])
    paths = sorted({each.canonical for each in request.app.router.resources() if each.canonical.startswith("/v1/")})
    alike = {path: sum(bool(get_close_matches(word, asked, 1, ALIKE)) for word in _words(path)) for path in paths}
    most = max(alike.values(), default=0)
    near = [path for path in paths if alike[path] == most] if most else []
    return f"near it {'is' if len(near) == 1 else 'are'} {', '.join(near)}, and " if near else ""


def _words(path: str) -> list[str]:
    """Without the names in braces, and without the version, which all of them have."""
    return [word for word in path.split("/") if word not in ("", "v1") and not word.startswith("{")]


async def _allowed(request: web.Request) -> set[str]:
    """The verbs of this path. Those of the route that takes what no other takes are any."""
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        _, verbs = await resource.resolve(request)
        allowed |= verbs
    return allowed - {hdrs.METH_ANY}
