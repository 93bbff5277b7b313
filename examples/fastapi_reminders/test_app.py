"""Two days of the shop, in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from fastapi.testclient import TestClient

from examples.fastapi_reminders.app import create_app, mails, tasks
from timerd.testing import SyncServer


@pytest.fixture
def http(timerd_server: SyncServer) -> Iterator[TestClient]:
    mails.clear()
    with TestClient(create_app(timerd_server.connect_options)) as client, timerd_server.working(tasks):
        yield client


def test_who_does_not_pay_is_reminded_after_two_days(timerd_server: SyncServer, http: TestClient) -> None:
    due = timerd_server.now + timedelta(days=2)
    assert http.put("/orders/17").json() == {"reminder": due.isoformat()}
    timerd_server.advance(days=1, hours=23)
    assert mails == []
    timerd_server.advance(hours=1)
    assert mails == ["Please pay order 17."]


def test_who_pays_is_not(timerd_server: SyncServer, http: TestClient) -> None:
    http.put("/orders/17")
    assert [task.payload for task in timerd_server.scheduled("reminders")] == [b'{"order":17}']
    assert http.put("/orders/17/payment").json() == {"reminder": "CANCELLED"}
    timerd_server.advance(days=3)
    assert mails == []
