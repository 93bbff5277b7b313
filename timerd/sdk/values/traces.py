"""What the client and the worker ask of the library that keeps traces. Without one they ask nothing.

A shape and no library: OpenTelemetry is named in timerd/tracing.py alone, so that who does not trace neither installs
nor imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from timerd.sdk.values.deliveries import Delivery


class Traces(Protocol):
    """`traceparent`: of what the caller is doing now, or "". `handling`: around a handler's work on `deliveries`."""

    def traceparent(self) -> str: ...
    def handling(self, deliveries: Sequence[Delivery]) -> AbstractContextManager[None]: ...
