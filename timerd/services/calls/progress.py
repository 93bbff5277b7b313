"""Progress of attempts: from the wire to the text that is kept, and back."""

from __future__ import annotations

from timerd.model.errors import Invalid
from timerd.model.progress import MAX_CURSOR_BYTES, KeptProgress, ProgressReport
from timerd.v1 import task_pb2 as wire
from timerd.v1 import work_service_pb2 as work_wire


def report_of(message: work_wire.ProgressReport, field: str) -> ProgressReport:
    """Raises Invalid."""
    said = progress_text(message.progress, f"{field}.progress") if message.HasField("progress") else ""
    return ProgressReport(said, message.age_ms)


def progress_text(message: wire.Progress, field: str) -> str:
    """Raises Invalid."""
    if not 0 <= message.fraction <= 1:
        raise Invalid(f"The fraction is {message.fraction}: give 0 to 1.", f"{field}.fraction")
    if len(message.cursor) > MAX_CURSOR_BYTES:
        raise Invalid(
            f"The cursor has {len(message.cursor):,} bytes: at most {MAX_CURSOR_BYTES:,} are kept. Keep large content "
            "elsewhere and send where to find it.",
            f"{field}.cursor",
        )
    return KeptProgress(message.fraction, message.cursor).to_text()


def progress_message(text: str) -> wire.Progress:
    """Of what is kept; empty: nothing was said."""
    return wire.Progress(**KeptProgress.from_text(text)._asdict()) if text else wire.Progress()
