"""`timerd simulate`: how a queue fares under several strategies, in simulated time and without a server."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands import options
from timerd.commands.call import Endpoint, connected, endpoint_by_environment
from timerd.commands.failures import CommandFailure, WrongInput
from timerd.commands.output import Form, Output
from timerd.commands.progress import Bar
from timerd.commands.table import Column, Kind
from timerd.commands.times import parse_span, shown_span
from timerd.model.counted import counted

if TYPE_CHECKING:
    from timerd.simulate import Dependency, Outage, Settings, SimulatedRun, Stop, Summary
    from timerd.simulate.curves import Curves
    from timerd.simulate.play import Playing
    from timerd.simulate.storing import RunFile

_FIGURES = ("jobs", "busy", "delay_p99", "oldest_run", "clogged", "spike", "never_ran")
_COLUMNS = (Column("run", Kind.NAME), *(Column(name, Kind.FIGURE) for name in _FIGURES))
_LEGEND = """
delay p99   from the queue to a worker
oldest run  the longest that a member had not run, of those whose source is up
clogged     how long more than 1% of them had missed a whole run
spike       the busiest tick's ingress, in mean ticks"""
_STRATEGIES = ("self", "central", "slot", "slot2")
_PICTURES = (".png", ".svg", ".pdf")
# Of the simulated time: how often the bar moves, and Ctrl-C is heard.
_STEPS = 200
# Plays a run, while the bar shows how far it is.
Plays = Callable[["Settings", Bar], Awaitable["SimulatedRun"]]
_LOAD, _SCRIPT, _TUNING, _LIVE = "Load", "What goes wrong", "Tuning", "A live server"
# What --from takes from the server, or a server has not.
_NOT_LIVE = ("members", "cycle_s", "zipf", "slots", "poll_s", "batch", "sources", "outages")


def _option(panel: str, *names: str, **settings: Any) -> Any:  # noqa: ANN401 - as typer.Option
    return typer.Option(*names, rich_help_panel=panel, **settings)


def simulate(
    presets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET]...", help="talk-email, talk-self, talk-central, talk-slot, talk-slot2."),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="self, central, slot, slot2; may be given again. Without a preset: all."),
    ] = None,
    members: Annotated[int | None, _option(_LOAD, "--members", help="Who runs once a period each.")] = None,
    every: Annotated[str | None, _option(_LOAD, "--every", metavar="SPAN", help="The period.")] = None,
    span: Annotated[str | None, _option(_LOAD, "--for", metavar="SPAN", help="So long is simulated.")] = None,
    workers: Annotated[int | None, _option(_LOAD, "--workers", help="Each has one job in hand.")] = None,
    mean: Annotated[str | None, _option(_LOAD, "--mean", metavar="SPAN", help="Of a job's duration.")] = None,
    p90: Annotated[str | None, _option(_LOAD, "--p90", metavar="SPAN", help="Nine of ten are no longer.")] = None,
    zipf: Annotated[float | None, _option(_LOAD, "--zipf", help="Members cost by Zipf's law; 0: the same.")] = None,
    source: Annotated[
        list[str] | None, _option(_SCRIPT, "--source", metavar="NAME=SHARE", help="As bank=30%, of the members.")
    ] = None,
    down: Annotated[
        list[str] | None,
        _option(_SCRIPT, "--down", metavar="NAME:FROM:TO", help="As bank:1d:2d; with :30s, as long a try takes."),
    ] = None,
    stop: Annotated[
        list[str] | None, _option(_SCRIPT, "--stop", metavar="FROM:TO", help="No worker starts anything then.")
    ] = None,
    slots: Annotated[int | None, _option(_TUNING, "--slots", help="Of a period; they divide it.")] = None,
    poll: Annotated[str | None, _option(_TUNING, "--poll", metavar="SPAN", help="How often central looks.")] = None,
    batch: Annotated[int | None, _option(_TUNING, "--batch", help="It takes so many; 0: what workers can.")] = None,
    tick: Annotated[str | None, _option(_TUNING, "--tick", metavar="SPAN", help="Metrics are made per tick.")] = None,
    seed: Annotated[int | None, _option(_TUNING, "--seed", help="The same seed, the same run.")] = None,
    engine: Annotated[
        bool, typer.Option("--engine", help="Play it on a whole server with a turned clock: slow, up to 20,000 jobs.")
    ] = False,
    live: Annotated[
        str | None,
        _option(_LIVE, "--from", metavar="HOST:PORT", help="The schedules and cycles of this server, from now on."),
    ] = None,
    queue: Annotated[str, _option(_LIVE, "--queue", help="Of it: of this queue only.")] = "",
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The metrics, as SQLite.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="A picture: .png, .svg, .pdf.")] = None,
    json: options.Json = False,
) -> None:
    """Compare strategies on a queue in simulated time.

    Members run once a period. Who decides when? The job before, a loop that takes the member that ran longest ago,
    slots, or moments in slots.

    timerd simulate --members 20000 --workers 5 --source bank=30% --down bank:1d:2d --plot claim.png
    """
    lengths = {"cycle_s": every, "span_s": span, "mean_s": mean, "p90_s": p90, "poll_s": poll, "tick_s": tick}
    numbers = {"members": members, "workers": workers, "zipf": zipf, "slots": slots, "batch": batch, "seed": seed}
    given = _given(lengths, numbers, source, down, stop)
    if live is not None:
        _simulate_from(live, queue, given, bool(presets or strategy or engine), out, plot, json)
        return
    runs = _checked(_wanted(presets or [], strategy or [], given), is_engine=engine)
    _check_places(out, plot)
    asyncio.run(_simulate(runs, _rehearsed if engine else _played, out, plot, json))


def _given(
    lengths: Mapping[str, str | None],
    numbers: Mapping[str, float | None],
    source: Sequence[str] | None,
    down: Sequence[str] | None,
    stop: Sequence[str] | None,
) -> dict[str, Any]:
    """The fields of Settings that are."""
    given: dict[str, Any] = {name: _seconds(text) for name, text in lengths.items() if text is not None}
    given |= {name: number for name, number in numbers.items() if number is not None}
    given |= {"sources": tuple(map(_source, source))} if source else {}
    given |= {"outages": tuple(map(_outage, down))} if down else {}
    return given | ({"stops": tuple(map(_stop, stop))} if stop else {})


def _seconds(text: str) -> float:
    return parse_span(text).total_seconds()


def _source(text: str) -> Dependency:
    from timerd.simulate import Dependency

    found = re.fullmatch(r"([^=:]+)=(\d+(?:\.\d+)?)(%?)", text.strip())
    if not found:
        raise WrongInput(
            f"{text!r} is not a source: write its name and its share of the members, as bank=30% or bank=0.3."
        )
    return Dependency(found[1], float(found[2]) / (100 if found[3] else 1))


def _outage(text: str) -> Outage:
    from timerd.simulate import Outage

    name, *times = text.split(":")
    if len(times) not in (2, 3):
        raise WrongInput(
            f"{text!r} is not an outage: write the source and from when to when it is down, counted from the "
            "beginning, as bank:1d:2d. With bank:1d:2d:30s each try takes 30 s to fail."
        )
    return Outage(name, *map(_moment, times))


def _stop(text: str) -> Stop:
    from timerd.simulate import Stop

    times = text.split(":")
    if len(times) != 2:
        raise WrongInput(f"{text!r} does not say from when to when, counted from the beginning: write it as 1d:1d4h.")
    return Stop(*map(_moment, times))


def _moment(text: str) -> float:
    """The beginning needs no unit."""
    return 0.0 if text == "0" else _seconds(text)


def _wanted(presets: list[str], strategies: list[str], given: dict[str, Any]) -> dict[str, Settings]:
    """By the names of the runs."""
    from timerd.simulate import PRESETS, Strategy
    from timerd.simulate.presets import DEFAULT

    for kind, names, allowed in (("preset", presets, PRESETS), ("strategy", strategies, _STRATEGIES)):
        wrong = [name for name in names if name not in allowed]
        if wrong:
            raise WrongInput(f"{wrong[0]!r} is no {kind}: there are {', '.join(allowed)}.")
    if presets and strategies:
        raise WrongInput("A preset has its strategy: give presets, or strategies, not both.")
    if presets:
        return {name: replace(PRESETS[name], **given) for name in presets}
    chosen = strategies or _STRATEGIES
    return {name: replace(DEFAULT, strategy=Strategy(name), **given) for name in chosen}


def _checked(runs: dict[str, Settings], *, is_engine: bool) -> dict[str, Settings]:
    from timerd.model.errors import Invalid
    from timerd.simulate import check

    if is_engine:
        from timerd.rehearsal import check_engine as check
    try:
        for settings in runs.values():
            check(settings)
    except Invalid as wrong:
        raise WrongInput(str(wrong)) from wrong
    return runs


def _check_places(out: Path | None, plot: Path | None) -> None:
    """Before a minute of work is lost."""
    if out and out.exists():
        raise WrongInput(f"{out} exists: name a file that does not, or remove it.")
    if plot and plot.suffix not in _PICTURES:
        raise WrongInput(f"{plot} is no name of a picture: it ends in {', '.join(_PICTURES)}.")
    if plot and find_spec("matplotlib") is None:
        raise CommandFailure("--plot needs matplotlib, which is not installed: pip install 'timerd[plot]'.")
    for path in (out, plot):
        if path and not path.absolute().parent.is_dir():
            raise WrongInput(f"There is no folder {path.absolute().parent} for {path.name}: make it first.")


@dataclass(frozen=True, slots=True)
class _Told:
    """What is told of a run."""

    name: str
    settings: Settings
    summary: Summary
    seconds: float

    @property
    def record(self) -> dict[str, Any]:
        rate = round(self.summary.jobs / self.seconds)
        rounded = {name: round(value, 4) for name, value in asdict(self.summary).items()}
        simulated = {"seconds": round(self.seconds, 3), "jobs_per_s": rate}
        return {"run": self.name, **rounded, **simulated, "settings": asdict(self.settings)}

    @property
    def shown(self) -> dict[str, str]:
        summary = self.summary
        return {
            "run": self.name,
            "jobs": f"{summary.jobs:,}",
            "busy": f"{summary.busy:.0%}",
            "delay_p99": _shown_s(summary.delay_p99_s),
            "oldest_run": _shown_s(summary.since_last_max_s),
            "clogged": _shown_s(summary.clogged_s),
            "spike": f"{summary.spike:,.1f}",
            "never_ran": f"{summary.never_run:,}",
        }


def _shown_s(seconds: float) -> str:
    return shown_span(timedelta(seconds=round(seconds, 1 if seconds < 60 else 0)))


async def _simulate(
    runs: dict[str, Settings], plays: Plays, out: Path | None, plot: Path | None, as_json: bool
) -> None:
    from timerd.simulate.curves import draw
    from timerd.simulate.storing import written

    told: list[_Told] = []
    drawn: list[Curves] = []
    with Bar("simulating") as bar:
        file: AbstractContextManager[RunFile | None] = written(out) if out else nullcontext()
        with file as kept:
            for name, settings in runs.items():
                told.append(await _one(name, settings, plays, bar, kept, drawn if plot else None))
        if plot:
            draw(drawn, plot)
        bar.stop()
    _tell(told, Output(Form.of(as_json)))


async def _one(
    name: str, settings: Settings, plays: Plays, bar: Bar, kept: RunFile | None, drawn: list[Curves] | None
) -> _Told:
    from timerd.simulate import measure, summarize
    from timerd.simulate.curves import curves

    began_s = time.perf_counter()
    bar.begin(f"simulating {name}", round(settings.span_s))
    run = await plays(settings, bar)
    metrics = measure(run)
    summary = summarize(run, metrics)
    seconds = time.perf_counter() - began_s
    if kept:
        kept.add(name, settings, metrics, summary)
    if drawn is not None:
        drawn.append(curves(name, metrics))
    return _Told(name, settings, summary, seconds)


async def _played(settings: Settings, bar: Bar) -> SimulatedRun:
    from timerd.simulate import play

    return await _stepped(play(settings), settings, bar)


async def _stepped(playing: Playing, settings: Settings, bar: Bar) -> SimulatedRun:
    """The loop gets its turns, in which the bar is shown and Ctrl-C ends the run."""
    shown_s = 0.0
    while True:
        try:
            at_s = next(playing)
        except StopIteration as ended:
            run: SimulatedRun = ended.value
            return run
        if at_s >= shown_s:
            bar.reach(round(at_s))
            shown_s = at_s + settings.span_s / _STEPS
            await asyncio.sleep(0)


async def _rehearsed(settings: Settings, bar: Bar) -> SimulatedRun:
    from timerd.rehearsal import rehearse

    return await rehearse(settings, lambda at_s: bar.reach(round(at_s)))


def _simulate_from(
    live: str,
    queue: str,
    given: dict[str, Any],
    is_more_asked: bool,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    if is_more_asked or any(name in given for name in _NOT_LIVE):
        raise WrongInput(
            "--from takes from the server who runs and when: give --for, --workers, --mean, --p90, --stop, --tick and "
            "--seed with it, and nothing else of what is simulated."
        )
    _check_places(out, plot)
    asyncio.run(_simulate_live(endpoint_by_environment(live), queue, given, out, plot, as_json))


async def _simulate_live(
    endpoint: Endpoint, queue: str, given: dict[str, Any], out: Path | None, plot: Path | None, as_json: bool
) -> None:
    from timerd.commands.live_arrivals import LiveReader
    from timerd.simulate.arrivals import play_arrivals
    from timerd.simulate.presets import DEFAULT

    settings = replace(DEFAULT, strategy=None, members=1, **given)
    _checked({"live": settings}, is_engine=False)
    async with connected(endpoint) as client:
        reader = LiveReader(client, queue, settings.span_s, settings.seed)
        found = await reader.read()
    if not len(found.at_s):
        raise CommandFailure(f"Nothing of {endpoint.server} comes within {_shown_s(settings.span_s)}.")
    cycle_s = max(1.0, found.longest_gap_s or settings.span_s)
    settings = replace(settings, members=found.members, cycle_s=cycle_s)
    await _simulate({"live": settings}, lambda it, bar: _stepped(play_arrivals(it, found), it, bar), out, plot, as_json)
    if reader.left_out and not as_json:
        Output(Form.TABLE).say(f"Without {len(reader.left_out)} schedules of a fixed delay, as {reader.left_out[0]}.")


def _tell(told: list[_Told], out: Output) -> None:
    if out.as_json:
        out.many([each.record for each in told], (), "")
        return
    out.many([each.shown for each in told], _COLUMNS, "")
    jobs, seconds = sum(each.summary.jobs for each in told), sum(each.seconds for each in told)
    out.say(_LEGEND)
    out.say(f"\n{counted(jobs, 'job')} and their metrics in {seconds:.1f} s: {jobs / seconds:,.0f} jobs/s.")


def register(app: typer.Typer) -> None:
    app.command()(simulate)
