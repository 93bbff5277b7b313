"""`timerd simulate`: a table of 80 columns or JSON, a file, a picture, and sentences for what cannot be."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from timerd.commands import simulate
from timerd.simulate import PRESETS, Summary
from timerd.testing import Server

QUICK = ("--members", "500", "--workers", "1", "--mean", "30s", "--p90", "66s", "--for", "1d", "--tick", "1m")
BANK = ("--source", "bank=30%", "--down", "bank:8h:20h")


def test_all_strategies_are_compared_in_a_table(terminal: Terminal) -> None:
    ran = terminal("simulate", *QUICK, *BANK)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["run", "self", "central", "slot", "slot2"]
    assert all(len(line.rstrip()) <= 80 for line in lines)
    clogged = {line.split()[0]: line.split()[5] for line in lines[1:5]}
    assert clogged.pop("central") not in ("0s", "")
    assert set(clogged.values()) == {"0s"}
    assert lines[-1].endswith("jobs/s.")


def test_the_page_shows_what_its_command_prints(terminal: Terminal, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/use/simulate.md").read_text()
    [command] = re.findall(r"^    timerd (simulate .*) --plot simulate.png$", page, re.MULTILINE)
    told = page.partition("```\n")[2].partition("```")[0].splitlines()
    assert [line.rstrip() for line in terminal(*command.split()).out.splitlines()[:5]] == told
    out = tmp_path / "runs.sqlite"
    assert terminal("simulate", *QUICK, "--strategy", "slot", "--out", str(out)).code == 0
    query = page.partition("```sql\n")[2].partition("```")[0]
    with closing(sqlite3.connect(out)) as opened:
        assert len(opened.execute(query).fetchall()) == 24


def test_a_table_of_many_jobs_has_80_columns() -> None:
    most = Summary(
        *(20_000_000, 20_000_000, 0, 0, 0),
        busy=1.0,
        delay_p50_s=1e5,
        delay_p99_s=1e5,
        delay_max_s=1e5,
        since_last_max_s=100_000.0,
        overdue_max=1.0,
        clogged_s=604_739.0,
        spike=999.9,
        never_run=9_999_999,
    )
    told = simulate._Told("talk-central", PRESETS["talk-self"], most, 1.0)
    cells = [max(len(cell), len(name)) for name, cell in told.shown.items()]
    assert sum(cells) + 2 * (len(cells) - 1) <= 80


def test_json_is_an_object_a_run_and_the_same_for_a_seed(terminal: Terminal) -> None:
    ran = terminal("simulate", "--strategy", "slot", "--strategy", "central", *QUICK, *BANK, "--json")
    slot, central = ran.lines
    assert (slot["run"], slot["clogged_s"], slot["jobs"]) == ("slot", 0, 1_500)
    assert central["clogged_s"] > 0
    assert slot["settings"]["outages"] == [{"source": "bank", "from_s": 28_800, "to_s": 72_000, "attempt_s": 0}]
    again = terminal("simulate", "--strategy", "slot", *QUICK, *BANK, "--json").json
    other = terminal("simulate", "--strategy", "slot", *QUICK, *BANK, "--seed", "2", "--json").json
    timing = ("seconds", "jobs_per_s")
    assert [again[name] for name in slot if name not in timing] == [slot[name] for name in slot if name not in timing]
    assert other["delay_p99_s"] != slot["delay_p99_s"]


def test_a_preset_with_what_is_changed_of_it(terminal: Terminal) -> None:
    told = terminal("simulate", "talk-slot2", *QUICK, "--down", "bank:1h:2h:5s", "--stop", "0:30m", "--json").json
    settings = told["settings"]
    assert (told["run"], settings["strategy"], settings["members"]) == ("talk-slot2", "slot2", 500)
    assert settings["outages"] == [{"source": "bank", "from_s": 3_600, "to_s": 7_200, "attempt_s": 5}]
    assert settings["stops"] == [{"from_s": 0, "to_s": 1_800}]


def test_the_engine_says_what_the_model_says(terminal: Terminal) -> None:
    few = ("--members", "12", "--every", "20s", "--for", "40s", "--workers", "1", "--mean", "1s", "--p90", "2s")
    asked = ("simulate", "--strategy", "slot2", *few, "--slots", "10", "--poll", "5s", "--json")
    timing = ("seconds", "jobs_per_s")
    by_model, by_engine = terminal(*asked).json, terminal(*asked, "--engine").json
    assert by_engine["jobs"] == 24
    assert [by_engine[name] for name in by_model if name not in timing] == [
        by_model[name] for name in by_model if name not in timing
    ]


def test_the_schedules_of_a_server(terminal: Terminal, whole: Server) -> None:
    created = ("schedules", "create")
    for number in range(3):
        terminal(*created, f"hourly-{number}", "--queue", "reports", "--cron", "0 * * * *")
    terminal(*created, "often", "--queue", "reports", "--every", "1m", "--jitter", "30s")
    terminal(*created, "poll", "--queue", "reports", "--fixed-delay", "5m")
    terminal(*created, "other", "--queue", "mails", "--every", "1s")
    terminal("cycles", "create", "sync", "--every", "8h", "--queue", "reports")
    terminal("cycles", "put", "sync", "a", "b")
    asked = ("simulate", "--from", whole.address, "--queue", "reports", "--for", "1d", "--workers", "1", "--tick", "1m")
    ran = terminal(*asked, "--json")
    assert (ran.code, ran.err) == (0, "")
    told = ran.json
    assert (told["run"], told["settings"]["strategy"], told["settings"]["members"]) == ("live", None, 6)
    assert told["jobs"] in (3 * 24 + 1_440 + 2 * 3, 3 * 24 + 1_439 + 2 * 3)
    assert told["settings"]["cycle_s"] == pytest.approx(28_800)
    shown = terminal(*asked).out
    assert shown.splitlines()[1].startswith("live")
    assert "Without 1 schedules of a fixed delay, as poll." in shown


def test_what_a_server_has_not_is_not_asked_of_it(terminal: Terminal, whole: Server) -> None:
    refused = terminal("simulate", "--from", whole.address, "--members", "5")
    assert (refused.code, "--from takes from the server who runs and when" in refused.err) == (2, True)
    nothing = terminal("simulate", "--from", whole.address, "--for", "1h")
    assert (nothing.code, "comes within 1h" in nothing.err) == (1, True)
    assert terminal("simulate", "--from", "127.0.0.1:1").code == 3


def test_metrics_go_into_a_file_and_curves_into_a_picture(terminal: Terminal, tmp_path: Path) -> None:
    file, picture = tmp_path / "runs.sqlite", tmp_path / "runs.png"
    two = ("--strategy", "central", "--strategy", "slot")
    assert terminal("simulate", *QUICK, *BANK, *two, "--out", str(file), "--plot", str(picture)).code == 0
    with closing(sqlite3.connect(file)) as opened:
        rows = opened.execute("SELECT name, count(*) FROM runs JOIN ticks USING (run) GROUP BY run").fetchall()
    assert rows == [("central", 1_440), ("slot", 1_440)]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    again = terminal("simulate", *QUICK, "--out", str(file))
    assert (again.code, again.err) == (2, f"timerd: {file} exists: name a file that does not, or remove it.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "--mean 4s --p90 2m",
            "A mean of 4 s with a p90 of 120 s is impossible: a tenth of the jobs takes 120 s or more",
        ),
        ("--p90 1s", "A p90 of 1 s below the mean of 5 s is not simulated"),
        ("--workers 0", "The number of workers is 0: it must be from 1 to 100,000."),
        ("--members 2000001", "The number of members is 2,000,001: it must be from 1 to 2,000,000."),
        ("--members 2000000", "There would be about 12,000,000 jobs: at most 10,000,000 are. Take fewer members or"),
        ("--workers 99999 --mean 1s --p90 1s --source b=9% --down b:0:2d", "There would be about 34,632,000 jobs"),
        ("--poll 1ms", "There would be about 172,800,000 looks of central: at most 5,000,000 are."),
        ("--engine", "There would be about 72,000 jobs: the engine plays at most 20,000."),
        ("--tick 1ms", "There would be about 172,800,000 ticks: at most 5,000,000 are."),
        ("--every 100ms", "The period is 0.1 s: it must be from 1 to 31,622,400 s."),
        ("--zipf nan", "The exponent of Zipf's law is nan: it must be from 0 to 3."),
        ("--slots 7", "The nearest numbers that do are 6 and 8."),
        ("--mean soon", "'soon' is not a span of time"),
        ("--source bank", "'bank' is not a source: write its name and its share"),
        ("--source a=60% --source b=60%", "at most 100% together"),
        ("--source a=10% --source a=10%", "A source is named twice"),
        ("--down bank:1h", "'bank:1h' is not an outage"),
        ("--down bank:1h:2h", "There is no source 'bank' that could be down"),
        ("--source bank=1% --down bank:2h:1h", "'bank' is down from 7,200.0 s to 3,600.0 s: the end must be later"),
        ("--source bank=1% --down bank:9d:10d", "but only 172,800.0 s are simulated"),
        ("--stop 1h", "'1h' does not say from when to when"),
        ("--stop 9d:10d", "The workers stand still from 777,600.0 s on, but only"),
        ("--strategy best", "'best' is no strategy: there are self, central, slot, slot2."),
        ("talk-best", "'talk-best' is no preset: there are talk-email"),
        ("talk-self --strategy slot", "give presets, or strategies, not both"),
        ("--plot x.txt", "x.txt is no name of a picture"),
        ("--out no/such/folder.sqlite", "There is no folder"),
    ],
)
def test_what_cannot_be_simulated_is_refused_before_anything_is(
    terminal: Terminal, arguments: str, sentence: str
) -> None:
    ran = terminal("simulate", *arguments.split())
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_a_picture_needs_the_extra(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate, "find_spec", lambda name: None)
    ran = terminal("simulate", *QUICK, "--plot", str(tmp_path / "x.png"))
    assert (ran.code, ran.out) == (1, "")
    assert "pip install 'timerd[plot]'" in ran.err
