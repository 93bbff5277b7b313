"""The comparison as people read it: a table and a picture of each case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.plots import DURABLE, LOSING, OURS

if TYPE_CHECKING:
    from benchmarks.sharing.__main__ import Run

HEAD = ("", "told to share by", "others wait, p50", "p99", "not started", "culprit's jobs")
NUMBERS = HEAD[2:]
COLOURS = (OURS, LOSING, DURABLE, "#8a6d3b", "#4c9f70", "#7b5ea7")
_SAYS = """## Who shares the slots

Ten slots, and customers that share them. A **noisy** one has 2,500 jobs due at once, each of a tenth of a second, and
a hundred others one each over the next 20 s. Of ten targets with two jobs a second each one **hangs**: its jobs take
10 s, until their time-out, the others' a twentieth of a second.

Each is told what its free edition knows of sharing: BullMQ has groups in its paid one only, Celery limits the calls of
a task. timerd keeps its default, by which a key has half of the slots at most. pg-boss looks for jobs every half a
second with each of its ten workers, which is as often as it can be told to. graphile-worker does one job of a customer
at a time. The waits are those of everybody but the culprit. What had not started counts as if it had at the end, a
minute after the begin."""


def markdown(runs: Sequence[Run], pictures: Sequence[str], about: Mapping[str, Any], load: float) -> str:
    parts = [_SAYS, *map(_table, _by_case(runs)), *pictures]
    where = f"{about['machine']}; commit: {about['commit']}; one run; load average at the start: {load:.1f}"
    made_by = f"`python -m benchmarks.sharing`; {where}. Versions: {_versions(about['versions'])}."
    return "\n\n".join([*parts, made_by])


def _versions(found: Mapping[str, Mapping[str, str]]) -> str:
    return "; ".join(
        f"{name}: {', '.join(f'{package} {version}' for package, version in versions.items())}"
        for name, versions in found.items()
        if versions
    )


def _by_case(runs: Sequence[Run]) -> list[list[Run]]:
    names = list(dict.fromkeys(run.case.name for run in runs))
    return [[run for run in runs if run.case.name == name] for name in names]


def _table(runs: Sequence[Run]) -> str:
    rule = "| " + " | ".join("---:" if column in NUMBERS else "---" for column in HEAD) + " |"
    rows = [_row((run.contender.name, run.contender.shares, *run.waits.cells)) for run in runs]
    return "\n".join([f"### {runs[0].case.title}", "", _row(HEAD), rule, *rows])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def pictures(runs: Sequence[Run], folder: Path) -> list[str]:
    """The markdown that shows them."""
    return [_picture(case, folder / f"sharing-{case[0].case.name}.png") for case in _by_case(runs)]


def _picture(runs: Sequence[Run], path: Path) -> str:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for run, colour in zip(runs, COLOURS, strict=False):
        label = f"{run.contender.name}: {run.contender.shares}"
        axes.plot(run.waits.due_s, run.waits.waited_s, ".", ms=4, color=colour, label=label)
    axes.set(
        xlabel="the job is due, s after the begin",
        ylabel="it waits, s",
        yscale="symlog",
        ylim=(0, None),
        title=runs[0].case.title,
    )
    axes.legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
    return f"![{runs[0].case.title}](../plots/{path.name})"
