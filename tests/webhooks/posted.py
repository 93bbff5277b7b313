"""A target on loopback, and rules that allow it."""

from __future__ import annotations

from timerd.core.webhooks.addresses import AddressRules
from timerd.model.webhooks import WebhookTarget

ALLOWED = AddressRules(["127.0.0.1/32"])


def target(url: str, **more: object) -> WebhookTarget:
    return WebhookTarget(namespace="default", queue="mails", url=url, secret_file="", **more)  # type: ignore[arg-type]
