"""What a worker process has written so far."""

from __future__ import annotations

from pathlib import Path

from timerd.demo.records import Confirmed, DeliveryRecord, LogReader


class WorkerLog:
    def __init__(self, path: Path) -> None:
        self._reader = LogReader(path)
        self._deliveries: list[DeliveryRecord] = []
        self._confirmed: list[Confirmed] = []

    @property
    def deliveries(self) -> list[DeliveryRecord]:
        self._look()
        return self._deliveries

    @property
    def confirmed(self) -> list[Confirmed]:
        self._look()
        return self._confirmed

    @property
    def numbers(self) -> list[int]:
        return [each.number for each in self.deliveries]

    @property
    def in_hand(self) -> int:
        return len(self.deliveries) - len(self.confirmed)

    def _look(self) -> None:
        for record in self._reader.read():
            if isinstance(record, DeliveryRecord):
                self._deliveries.append(record)
            elif isinstance(record, Confirmed):
                self._confirmed.append(record)
