"""`revoke` for what waits in timerd: it is cancelled there, and its result says so as if a worker had refused it."""

from __future__ import annotations

from typing import Any

from celery.app.task import Context
from kombu.exceptions import ContentDisallowed, DecodeError
from kombu.message import Message as Received
from kombu.serialization import prepare_accept_content
from kombu.utils.functional import maybe_list
from kombu.utils.imports import symbol_by_name

from timerd.contrib.celery.messages import Message
from timerd.contrib.celery.waiting import WaitingMessages


def revoking(control: Any, waiting: WaitingMessages) -> type[Any]:  # noqa: ANN401 - a class, or its name
    """The application's class of remote control, with a `revoke` that cancels in timerd first.

    Args:
        control: the class.
        waiting: the messages that wait in timerd.
    """
    plain: type[Any] = symbol_by_name(control)

    class Control(plain):  # type: ignore[misc] # Celery has no types
        """Reaches what waits in timerd as well as what workers have."""

        def revoke(
            self,
            task_id: Any,  # noqa: ANN401 - an id, or a list of them
            destination: Any = None,  # noqa: ANN401 - as Celery's
            *more: Any,  # noqa: ANN401 - as Celery's
            **options: Any,  # noqa: ANN401 - as Celery's
        ) -> Any:  # noqa: ANN401 - as Celery's
            """As `Control.revoke`. Workers are told too: what fires at this moment is on its way to them."""
            for each in maybe_list(task_id) if destination is None else ():
                message = waiting.cancel(each)
                if message is not None:
                    _mark_revoked(self.app, each, message)
            return super().revoke(task_id, destination, *more, **options)

    return Control


def _mark_revoked(app: Any, task_id: str, message: Message) -> None:  # noqa: ANN401 - Celery has no types
    """No worker meets the task to do it: who waits for the result hears of it, and a chord that it was part of."""
    app.backend.mark_as_revoked(task_id, "revoked", request=_context(app, message))


def _context(app: Any, message: Message) -> Any:  # noqa: ANN401 - Celery has no types
    """As a worker makes it of what it receives."""
    publish = message.publish
    headers = dict(publish["headers"])
    received = Received(
        body=message.body,
        content_type=publish["content_type"],
        content_encoding=publish["content_encoding"],
        headers=dict(headers),
        accept=prepare_accept_content(app.conf.accept_content),
    )
    try:
        payload = received.payload
    except (ContentDisallowed, DecodeError):
        # No worker with these settings would have run it. That it was part of a chord is in there.
        return Context(headers)
    embedded = payload if isinstance(payload, dict) else payload[2]
    return Context({**headers, **(embedded or {})})
