"""An order is placed and paid."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from examples.django_reminders.models import Order
from examples.django_reminders.timers import timers

PAY_WITHIN = timedelta(days=2)


def order(_: HttpRequest, number: int) -> JsonResponse:
    Order.objects.get_or_create(pk=number)
    task = timers().schedule("reminders", str(number), delay=PAY_WITHIN, key=f"order-{number}", on_conflict="keep")
    return JsonResponse({"reminder": task.fire_time.isoformat()})


def pay(_: HttpRequest, number: int) -> JsonResponse:
    Order.objects.filter(pk=number).update(paid=True)
    return JsonResponse({"reminder": timers().cancel(key=f"order-{number}").name})


urlpatterns = [
    path("orders/<int:number>", csrf_exempt(order)),
    path("orders/<int:number>/payment", csrf_exempt(pay)),
]
