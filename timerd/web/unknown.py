"""What is no route: the sentence says what there is instead."""

from __future__ import annotations

from aiohttp import hdrs, web
from grpc import StatusCode

from timerd.model.errors import NotFound
from timerd.services.transport.local_calls import CallFailure
from timerd.web.errors import response_of
from timerd.web.front import HttpCall

UNKNOWN_PATH = "/{rest:.*}"
MOST_CHARS = 200


async def answer_unknown(call: HttpCall) -> web.StreamResponse:
    """Raises NotFound where the path has no route, whatever the verb."""
    request = call.request
    allowed = await _allowed(request)
    if not allowed:
        raise NotFound(
            f"There is no path {request.path[:MOST_CHARS]!r}: GET /openapi.json lists those that there are.",
            "PATH_UNKNOWN",
        )
    verbs = ", ".join(sorted(allowed))
    sentence = f"{request.path[:MOST_CHARS]} is not asked by {request.method[:MOST_CHARS]}, but by {verbs}."
    response = response_of(CallFailure(StatusCode.UNIMPLEMENTED, sentence))
    response.set_status(405)
    response.headers["Allow"] = verbs
    return response


async def _allowed(request: web.Request) -> set[str]:
    """The verbs of this path. Those of the route that takes what no other takes are any."""
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        _, verbs = await resource.resolve(request)
        allowed |= verbs
    return allowed - {hdrs.METH_ANY}
