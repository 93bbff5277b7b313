"""KEDA's external scaler: it asks how much work is coming, and adds workers (or instances) before it is there.

Every instance answers the same, since the counts of all are in the store; the last ten seconds of the others' are not.
One that does not hear from the store says so: KEDA then keeps the replicas that there are, or its `fallback`.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

import grpc.aio

from timerd.core.cluster import Outlook, demand_per_s
from timerd.model.errors import Invalid
from timerd.peer.keda.externalscaler_pb2 import (
    GetMetricSpecResponse,
    GetMetricsRequest,
    GetMetricsResponse,
    IsActiveResponse,
    MetricSpec,
    MetricValue,
    ScaledObjectRef,
)
from timerd.ports import Store
from timerd.services.transport.status import Context, abort, problem_of

METRIC = "timerd-tasks-per-second"
SERVICE = "externalscaler.ExternalScaler"
LOOK_EVERY_S = 10.0
KNOWN = ("queue", "namespace", "tasksPerSecond", "leadSeconds", "holdSeconds")
# Beyond what any cluster does, and beyond what anybody waits for; larger ones would not fit on the wire or in a store.
MOST_PER_S = 1e9
MOST_SECONDS = 7 * 86_400.0
# Of KEDA itself: they stand among ours.
_OF_KEDA = ("scalerAddress", "tlsCertFile", "caCert", "tlsClientCert", "tlsClientKey", "unsafeSsl", "enableTLS")


class ScalerWish(NamedTuple):
    """What stands in a trigger."""

    namespace: str
    queue: str
    per_replica: float
    outlook: Outlook


def wish_of(metadata: Mapping[str, str]) -> ScalerWish:
    """Raises Invalid: a name that is not known is not silently without effect."""
    for name in metadata:
        if name not in KNOWN and name not in _OF_KEDA:
            raise Invalid(f"{name!r} is no setting of timerd's scaler: allowed are {', '.join(KNOWN)}.", name)
    usual = Outlook()
    return ScalerWish(
        metadata.get("namespace") or "default",
        metadata.get("queue", ""),
        _number(metadata, "tasksPerSecond", None, 0.001, MOST_PER_S),
        Outlook(
            int(_number(metadata, "leadSeconds", usual.lead_ms / 1000, 0, MOST_SECONDS) * 1000),
            int(_number(metadata, "holdSeconds", usual.hold_ms / 1000, 0, MOST_SECONDS) * 1000),
        ),
    )


def _number(metadata: Mapping[str, str], name: str, usual: float | None, least: float, most: float) -> float:
    given = metadata.get(name, usual)
    with contextlib.suppress(ValueError):
        if given is not None and least <= (number := float(given)) <= most:
            return number
    what = "missing" if given is None else repr(given)
    raise Invalid(f"{name} is {what}: write a number from {least:g} to {most:,.0f}.", name)


class Foreseeing:
    """Reads estimates, and nothing else."""

    def __init__(self, store: Store, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms

    async def demand(self, wish: ScalerWish) -> float:
        now_ms = self._now_ms()
        due = await self._store.estimates(wish.namespace, wish.queue, *wish.outlook.window_ms(now_ms))
        return demand_per_s(due, now_ms, wish.outlook)

    # -- as KEDA calls it -------------------------------------------------------------------------------------------

    async def is_active(self, request: ScaledObjectRef, context: Context) -> IsActiveResponse:
        return IsActiveResponse(result=await self._asked(request, context) > 0)

    async def stream_is_active(self, request: ScaledObjectRef, context: Context) -> AsyncIterator[IsActiveResponse]:
        said = None
        while True:
            is_active = await self._asked(request, context) > 0
            if is_active is not said:
                said = is_active
                yield IsActiveResponse(result=is_active)
            await asyncio.sleep(LOOK_EVERY_S)

    async def get_metric_spec(self, request: ScaledObjectRef, context: Context) -> GetMetricSpecResponse:
        try:
            wish = wish_of(request.scalerMetadata)
        except Invalid as error:
            await abort(context, problem_of(error))
        # Older versions know whole numbers only, and 0 would be divided by.
        whole = max(1, round(wish.per_replica))
        spec = MetricSpec(metricName=METRIC, targetSize=whole, targetSizeFloat=wish.per_replica)
        return GetMetricSpecResponse(metricSpecs=[spec])

    async def get_metrics(self, request: GetMetricsRequest, context: Context) -> GetMetricsResponse:
        demand = await self._asked(request.scaledObjectRef, context)
        value = MetricValue(metricName=METRIC, metricValue=math.ceil(demand), metricValueFloat=demand)
        return GetMetricsResponse(metricValues=[value])

    async def _asked(self, request: ScaledObjectRef, context: Context) -> float:
        try:
            return await self.demand(wish_of(request.scalerMetadata))
        except Exception as error:  # noqa: BLE001 - as for every call: a sentence, or an incident in the log
            await abort(context, problem_of(error))

    def handler(self) -> grpc.GenericRpcHandler:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        asked: Any = ScaledObjectRef.FromString
        methods = {
            "IsActive": unary(self.is_active, asked, IsActiveResponse.SerializeToString),
            "StreamIsActive": stream(self.stream_is_active, asked, IsActiveResponse.SerializeToString),
            "GetMetricSpec": unary(self.get_metric_spec, asked, GetMetricSpecResponse.SerializeToString),
            "GetMetrics": unary(self.get_metrics, GetMetricsRequest.FromString, GetMetricsResponse.SerializeToString),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)
