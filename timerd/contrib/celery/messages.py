"""A message of Celery on its way: all that kombu publishes, as the payload of a task.

The first line is JSON and has the route, the headers and the properties; what follows is the body, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from kombu import Exchange, Queue, binding
from kombu.exceptions import EncodeError
from kombu.utils import json

CONTENT_TYPE = "application/x-timerd-celery"
_VERSION, _VERSION_AGAIN = 1, 2
_OF_SCHEDULES = UUID("8f0f5a0e-2c0b-4d0f-9f35-6f2f5f0d3a51")
_KIND, _EXCHANGE, _BINDINGS = "is", "exchange", "bindings"


class EachRun(NamedTuple):
    """Of a message that is published many times: each has an id of its own.

    Args:
        expires_s: it expires so many seconds after it was published. None where it does not.
    """

    expires_s: float | None


class Message(NamedTuple):
    """What is published, and how.

    Args:
        body: the arguments, serialised and perhaps compressed.
        declare: queues and exchanges that are declared before, described as JSON.
        expires_at_ms: when its time to live ends, in milliseconds since the epoch. None where it has none.
        publish: the arguments of `kombu.Producer.publish` beside the body.
        again: of one that a schedule publishes. None of one that is published once.
    """

    body: bytes
    declare: str
    expires_at_ms: int | None
    publish: dict[str, Any]
    again: EachRun | None = None

    def to_bytes(self) -> bytes:
        """Raises EncodeError for a header or property that has no JSON, as kombu does for Redis."""
        line: dict[str, Any] = {
            "v": _VERSION if self.again is None else _VERSION_AGAIN,
            "publish": self.publish,
            "declare": json.loads(self.declare),
            "expires_at_ms": self.expires_at_ms,
        }
        if self.again is not None:
            line["again"] = {"expires_s": self.again.expires_s}
        try:
            return str(json.dumps(line)).encode() + b"\n" + self.body
        except (TypeError, ValueError) as wrong:
            raise EncodeError(f"A header or a property of the message cannot be written as JSON: {wrong}.") from wrong

    @classmethod
    def of_bytes(cls, payload: bytes) -> Message:
        """Raises ValueError for what is no such payload."""
        first, _, body = payload.partition(b"\n")
        try:
            line = json.loads(first)
            version, declare = line["v"], json.dumps(line["declare"])
            again = EachRun(**line["again"]) if version == _VERSION_AGAIN else None
            message = cls(body, declare, line["expires_at_ms"], line["publish"], again)
        except (KeyError, TypeError, ValueError) as wrong:
            raise ValueError(f"This payload is no message of Celery that `install` has stored: {wrong!r}.") from wrong
        if version not in (_VERSION, _VERSION_AGAIN):
            raise ValueError(f"This message has the form {version!r}, of a later release: upgrade the publisher.")
        return message

    def of_delivery(self, delivery_id: str, now_ms: int) -> Message:
        """This one, or what is published of it now: its id is the same however often a delivery is repeated.

        Args:
            delivery_id: that of the delivery.
            now_ms: the time, in milliseconds since the epoch.
        """
        if self.again is None:
            return self
        task_id = str(uuid5(_OF_SCHEDULES, delivery_id))
        headers = {**self.publish["headers"], "id": task_id, "root_id": task_id}
        publish = {**self.publish, "headers": headers, "correlation_id": task_id}
        if self.again.expires_s is None:
            return self._replace(publish=publish, again=None)
        expires_at_ms = now_ms + round(self.again.expires_s * 1000)
        headers["expires"] = datetime.fromtimestamp(expires_at_ms / 1000, UTC).isoformat()
        return self._replace(publish=publish, expires_at_ms=expires_at_ms, again=None)


def described(entities: Iterable[Any]) -> str:
    """Queues and exchanges as JSON, with all that a declaration needs."""
    return str(json.dumps([_fields(each) for each in entities]))


def _fields(entity: Any) -> dict[str, Any]:  # noqa: ANN401 - a queue or an exchange
    kind = _EXCHANGE if isinstance(entity, Exchange) else "queue"
    fields: dict[str, Any] = entity.as_dict(recurse=True)
    return {_KIND: kind, **{name: value for name, value in fields.items() if value is not None}}


@lru_cache(maxsize=256)
def declared(description: str) -> tuple[Any, ...]:
    """The queues and exchanges that `described` has described. The same ones are made once."""
    return tuple(_entity(fields) for fields in json.loads(description))


def _entity(fields: dict[str, Any]) -> Any:  # noqa: ANN401 - a queue or an exchange
    if fields.pop(_KIND) == _EXCHANGE:
        return Exchange(**fields)
    bindings = [binding(**_with_exchange(each)) for each in fields.pop(_BINDINGS, ())]
    return Queue(**_with_exchange(fields), bindings=bindings)


def _with_exchange(fields: dict[str, Any]) -> dict[str, Any]:
    exchange = fields.get(_EXCHANGE)
    return {**fields, _EXCHANGE: Exchange(**exchange)} if exchange else fields
