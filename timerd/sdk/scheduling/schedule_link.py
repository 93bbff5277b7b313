"""How calls of schedules go out: what all of them share."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from timerd.sdk.transport import Calls
from timerd.sdk.values import new_request_id, optional_name

_SERVICE = "ScheduleService"


class Opens(Protocol):
    """What a client does for its schedules."""

    _namespace: str
    _calls: Calls

    def _open(self) -> None: ...


class ScheduleLink:
    """Of one client."""

    def __init__(self, client: Opens) -> None:
        self._client = client

    def _open(self) -> str:
        """The namespace of the client, which is open then."""
        self._client._open()
        return self._client._namespace

    def _call(self, method: str, request: Any, kind: type[Any]) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - of each call
        return self._client._calls(method, request, kind, _SERVICE)


def request_id_of(given: str | None) -> str:
    return optional_name(given, "request_id") or new_request_id()
