"""Two days of the shop, in milliseconds: `django-admin test examples.django_reminders.tests`."""

from __future__ import annotations

from datetime import timedelta

from django.test import TransactionTestCase

import timerd.testing
from examples.django_reminders.models import Order
from examples.django_reminders.timers import timers, worker


class RemindersTest(TransactionTestCase):  # type: ignore[misc] # Django ships without types
    """What a test stores is seen by handlers, for it is committed."""

    def setUp(self) -> None:
        self.timerd = self.enterContext(timerd.testing.server())
        self.enterContext(self.settings(TIMERD=self.timerd.connect_options))
        timers.cache_clear()
        self.addCleanup(timers.cache_clear)
        self.enterContext(self.timerd.working(worker))

    def test_who_does_not_pay_is_reminded_after_two_days(self) -> None:
        due = self.timerd.now + timedelta(days=2)
        assert self.client.put("/orders/17").json() == {"reminder": due.isoformat()}
        self.timerd.advance(days=1, hours=23)
        assert Order.objects.get(pk=17).reminders == 0
        self.timerd.advance(hours=1)
        assert Order.objects.get(pk=17).reminders == 1

    def test_who_pays_is_not(self) -> None:
        self.client.put("/orders/17")
        assert [task.key for task in self.timerd.scheduled("reminders")] == ["order-17"]
        assert self.client.put("/orders/17/payment").json() == {"reminder": "CANCELLED"}
        self.timerd.advance(days=3)
        assert Order.objects.get(pk=17).reminders == 0
