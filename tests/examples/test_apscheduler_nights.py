"""examples/apscheduler_nights: of two schedulers one runs the job, once a night over both changes of the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.apscheduler_nights.__main__ import main

README = Path(__file__).parents[2] / "examples" / "apscheduler_nights" / "README.md"


def test_the_page_shows_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out in README.read_text(encoding="utf-8")
