"""A producer that hands a task's message to somebody else in place of the broker.

It is given to Celery for one call. What Celery and its signals do to a message before it leaves has been done by then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from kombu import Producer, Queue

from timerd.contrib.celery.messages import Message, described

_EXPIRATION = "expiration"


class CatchingProducer(Producer):  # type: ignore[misc] # kombu has no types
    """The first message that is published goes to `catch`; later ones (an event that says it was sent) to the broker.

    Args:
        real: the producer that would have published it, whose connection serves the later ones.
        catch: takes the message; what it raises, the caller of Celery gets.
    """

    def __init__(self, real: Any, catch: Callable[[Message], None]) -> None:  # noqa: ANN401 - a producer of kombu
        super().__init__(real.connection, auto_declare=False, serializer=real.serializer, compression=real.compression)
        self._catch = catch
        self._is_caught = False
        self._has_deadline = False

    def publish(self, body: Any, *positional: Any, **options: Any) -> Any:  # noqa: ANN401 - as kombu's
        """As kombu's."""
        # In protocol 1 it is in the body, which is bytes a moment later.
        meta = body if isinstance(body, Mapping) else options.get("headers") or {}
        self._has_deadline = meta.get("expires") is not None
        return super().publish(body, *positional, **options)

    def _publish(
        self,
        body: bytes | str,
        priority: int | None,
        content_type: str,
        content_encoding: str,
        headers: dict[str, Any],
        properties: dict[str, Any],
        routing_key: str,
        mandatory: bool,
        immediate: bool,
        exchange: str,
        declare: list[Any],
        *more: Any,  # noqa: ANN401 - as kombu's
        **options: Any,  # noqa: ANN401 - as kombu's
    ) -> Any:  # noqa: ANN401 - as kombu's
        """Kombu calls it with what it would put on the wire."""
        route = (routing_key, mandatory, immediate, exchange)
        if self._is_caught:
            form = (body, priority, content_type, content_encoding, headers, properties)
            return super()._publish(*form, *route, declare, *more, **options)
        publish = {
            "priority": priority,
            "content_type": content_type,
            "content_encoding": content_encoding,
            "headers": headers,
            **dict(zip(("routing_key", "mandatory", "immediate", "exchange"), route, strict=True)),
            **{name: value.name if isinstance(value, Queue) else value for name, value in properties.items()},
        }
        as_bytes = body if isinstance(body, bytes) else body.encode(content_encoding)
        self._catch(Message(as_bytes, described(declare), self._end_of(publish), publish))
        self._is_caught = True
        return None

    def _end_of(self, publish: dict[str, Any]) -> int | None:
        """A time to live that Celery made of `expires` ends at an instant; one of the caller's own begins when the
        message is published, and stays in `publish` as seconds, as kombu takes it."""
        if _EXPIRATION not in publish:
            return None
        left_ms = int(publish.pop(_EXPIRATION))
        if self._has_deadline:
            return time.time_ns() // 1_000_000 + left_ms
        publish[_EXPIRATION] = left_ms / 1000
        return None
