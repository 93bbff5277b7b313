"""What a worker tells its server of handlers that may not be silent for long."""

from __future__ import annotations

from time import monotonic

import pytest

from tests.sdk.fake_server import deliver_of, token_of
from timerd.sdk.values import DeliveredBatch, Progress
from timerd.sdk.working.leases import Hold, InHand
from timerd.sdk.working.stall_reports import StallReports
from timerd.v1 import work_service_pb2 as pb

STALL_S = 10


class Story:
    """Two deliveries of which the second may be silent, as time goes on. `begun`: its handler runs."""

    def __init__(self) -> None:
        self.in_hand, self.sent, self.is_open = InHand(), list[list[pb.ProgressReport]](), True
        deliver = deliver_of("q", [b"a", b"b"])
        del deliver.templates[:]
        deliver.templates.extend([pb.DeliveryTemplate(stall_timeout_ms=1_000 * STALL_S), pb.DeliveryTemplate()])
        deliver.template_index.extend([0, 1])
        self.batch = DeliveredBatch(deliver, report=self.in_hand.report)
        self.hold = Hold(self.batch, 0, 2)
        self.in_hand.add(self.hold)
        self.reports = StallReports(self.in_hand, self._send)

    def _send(self, reports: list[pb.ProgressReport]) -> bool:
        if self.is_open:
            self.sent.append(reports)
        return self.is_open

    def told(self, after_s: float) -> list[tuple[bytes, int]]:
        """So long after it came: tokens, and how old the word is in whole seconds."""
        self.sent.clear()
        self.batch.received_s = monotonic() - after_s
        self.reports._look()
        return [(each.ack_token, each.age_ms // 1_000) for reports in self.sent for each in reports]

    def heard(self, after_s: float) -> None:
        self.hold.heard_s = lambda: self.batch.received_s + after_s


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    story = Story()
    monkeypatch.setattr(story.reports, "watch", lambda: None)
    return story


def test_it_is_told_shortly_before_it_would_be_too_late(story: Story) -> None:
    story.heard(4)
    assert story.told(5) == []
    assert story.told(9.5) == [(token_of(0), 5)]
    assert story.told(13.5) == []


def test_a_handler_that_has_said_nothing_since_is_not_spoken_for(story: Story) -> None:
    story.heard(0)
    assert story.told(9.5) == []


def test_what_waits_for_its_handler_is_spoken_for(story: Story) -> None:
    assert story.told(9.5) == [(token_of(0), 0)]
    assert not story.sent[0][0].HasField("progress")


def test_what_was_not_sent_or_perhaps_lost_is_told_again(story: Story) -> None:
    story.heard(4)
    story.in_hand.report(token_of(0), Progress(0.5))
    story.is_open = False
    assert story.told(9.5) == []
    story.is_open = True
    assert story.told(10.2) == [(token_of(0), 6)]
    assert story.sent[0][0].progress.fraction == 0.5
    story.reports.repeat()
    assert story.told(10.4) == [(token_of(0), 6)]
