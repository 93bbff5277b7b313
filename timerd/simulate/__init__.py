"""`timerd simulate`: a queue in which members run every so often, under several strategies, in simulated time.

`play` runs one; what came of it is read from its jobs: per tick by `measure`, in a few figures by `summarize`.
"""

from timerd.simulate.durations import Durations, durations
from timerd.simulate.jobs import JobOutcome, SimulatedJobs
from timerd.simulate.metrics import Metrics, measure
from timerd.simulate.play import SimulatedRun, play
from timerd.simulate.presets import PRESETS
from timerd.simulate.settings import Dependency, Outage, Settings, Stop, Strategy, check
from timerd.simulate.summary import Summary, summarize

__all__ = [
    "PRESETS",
    "Durations",
    "SimulatedJobs",
    "Metrics",
    "Outage",
    "JobOutcome",
    "SimulatedRun",
    "Settings",
    "Dependency",
    "Stop",
    "Strategy",
    "Summary",
    "check",
    "durations",
    "measure",
    "play",
    "summarize",
]
