"""What the Grafana dashboard shows, in the order of the questions that somebody has who opens it.

This is the source; `dashboard.json` is made from it by `python -m k8s.monitoring` and committed, so that Grafana can be
given a file. A panel is a title, a unit and its queries; where it lies and how it is drawn follows from the order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]

# Grafana's grid: so many columns, so many panels beside each other.
COLUMNS, ABREAST, PANEL_ROWS = 24, 3, 8
SOURCE: Json = {"type": "prometheus", "uid": "${source}"}
# Chosen at the top of the page; all of them at first.
HERE = 'job=~"$job",instance=~"$instance"'
OF_QUEUE = f'{HERE},queue=~"$queue"'


class Query(NamedTuple):
    """In PromQL; `name` names its lines, by labels in double braces."""

    expression: str
    name: str


class Panel(NamedTuple):
    """`unit`: one of Grafana's. `red`: from where on a line is drawn red."""

    title: str
    unit: str
    queries: Sequence[Query]
    says: str
    red: float | None = None


class Row(NamedTuple):
    question: str
    panels: Sequence[Panel]


def rate(counter: str, by: str, labels: str = HERE) -> str:
    return f"sum by ({by}) (rate({counter}{{{labels}}}[$__rate_interval]))"


def percentile(share: float, histogram: str, by: str, labels: str = HERE) -> str:
    return f"histogram_quantile({share:g}, {rate(f'{histogram}_bucket', f'le, {by}', labels)})"


def each(gauge: str) -> Query:
    """A line for each instance."""
    return Query(f"{gauge}{{{HERE}}}", "{{instance}}")


FIRING = Row("Do tasks fire on time?", (
    Panel("Lateness, p99", "s", (
        Query(percentile(0.99, "timerd_delivery_lateness_seconds", "queue", OF_QUEUE), "{{queue}}"),
    ), "From a task's fire time to its sending to a worker; an outage that is being worked off is in it.", 1),
    Panel("Lateness, p50", "s", (
        Query(percentile(0.5, "timerd_delivery_lateness_seconds", "queue", OF_QUEUE), "{{queue}}"),
    ), "Half of the tasks are sent within this time."),
    Panel("Oldest task that is due", "s", (each("timerd_oldest_due_seconds"),),
          "It waits for a worker with room, or for its instance.", 60),
    Panel("Due and not sent", "short", (Query(f"sum by (queue) (timerd_tasks_due{{{OF_QUEUE}}})", "{{queue}}"),),
          "In memory. A line that grows: too few workers, or too slow ones."),
    Panel("Waiting without a worker", "short", (
        Query(f"min by (queue) (timerd_backlog_buckets{{{OF_QUEUE}}})", "{{queue}}"),
    ), "Buckets of the store with due tasks of a queue whose workers are away.", 1),
    Panel("Sent", "ops", (
        Query(rate("timerd_delivery_lateness_seconds_count", "queue", OF_QUEUE), "{{queue}}"),
    ), "Deliveries a second."),
    Panel("What became of deliveries", "ops", (
        Query(rate("timerd_deliveries_settled_total", "outcome", OF_QUEUE), "{{outcome}}"),
    ), "acked is the good one; timed_out and lost come again."),
    Panel("Attempts after the first", "percentunit", (
        Query("1 - " + rate("timerd_delivery_attempts_bucket", "queue", OF_QUEUE + ',le="1"')
              + " / " + rate("timerd_delivery_attempts_count", "queue", OF_QUEUE), "{{queue}}"),
    ), "Of what is sent, the share that failed before."),
    Panel("Dead letters", "short", (
        Query(f"sum by (queue) (increase(timerd_dead_letters_total{{{OF_QUEUE}}}[$__rate_interval]))", "{{queue}}"),
    ), "Tasks whose last attempt failed; they wait for `timerd redrive`."),
    Panel("Since the last canary", "s", (each("timerd_canary_age_seconds"),),
          "That came through: an instance gives itself a task every few seconds.", 60),
    Panel("Canaries", "ops", (
        Query(rate("timerd_canary_runs_total", "instance, outcome"), "{{instance}} {{outcome}}"),
    ), "fired and stored are the good ones; the others say where they got stuck."),
    Panel("Health", "short", (Query(f"timerd_health_serving{{{HERE}}}", "{{instance}} {{part}}"),),
          "0: the health check of that part fails; ready is what load balancers go by."),
))  # fmt: skip

LOAD = Row("What is asked of it?", (
    Panel("Scheduled", "ops", (Query(rate("timerd_tasks_scheduled_total", "queue", OF_QUEUE), "{{queue}}"),),
          "Tasks stored by callers a second."),
    Panel("Cancelled, moved, purged, redriven", "ops", (
        Query(rate("timerd_tasks_changed_total", "change"), "{{change}}"),
    ), "Changes a second."),
    Panel("Pending", "short", (Query(f"sum by (queue) (timerd_tasks_pending{{{OF_QUEUE}}})", "{{queue}}"),),
          "Not due yet; an estimate, for queues that were delivered to since the start."),
    Panel("Requests", "ops", (Query(rate("timerd_requests_total", "method, code"), "{{method}} {{code}}"),),
          "By method and code; a message of a Session is one."),
    Panel("Request duration, p99", "s", (
        Query(percentile(0.99, "timerd_request_duration_seconds", "method"), "{{method}}"),
    ), "Until the answer is made; for Schedule that includes the commit."),
    Panel("Processing, p99", "s", (
        Query(percentile(0.99, "timerd_delivery_processing_seconds", "queue", OF_QUEUE), "{{queue}}"),
    ), "From sending to the worker's answer."),
    Panel("With workers", "short", (each("timerd_tasks_in_flight"),), "Deliveries in hand."),
    Panel("Workers", "short", (each("timerd_workers"),), "Work streams."),
    Panel("Streams", "short", (each("timerd_streams_open"),), "Session and Work streams; `max_streams` bounds them."),
))  # fmt: skip

HOLDING = Row("Who holds what?", (
    Panel("Instances that live", "short", (each("timerd_instances"),), "As each sees it; all should see the same."),
    Panel("Partitions held", "short", (
        Query(f"sum by (instance, phase) (timerd_partitions_held{{{HERE}}})", "{{instance}} {{phase}}"),
    ), "By phase."),
    Panel("Lag of the slowest mark", "s", (each("timerd_mark_lag_seconds"),),
          "After `max_mark_lag` (10 minutes) what is still open is carried on, and the lag ends.", 1200),
    Panel("What happens to partitions", "ops", (
        Query(rate("timerd_partition_events_total", "event"), "{{event}}"),
    ), "taken_over follows a death, handed_over a rollout; mark_refused is a holder that did not know yet."),
    Panel("Age of the lease", "s", (each("timerd_lease_age_seconds"),),
          "It grows where the store takes no sign of life.", 8),
    Panel("Signs of life", "ops", (
        Query(rate("timerd_lease_events_total", "instance, event"), "{{instance}} {{event}}"),
    ), "lapsed: for too long there was none, and all that was held was dropped."),
    Panel("Lightweight transactions", "ops", (
        Query(rate("timerd_store_changes_total", "register, result"), "{{register}} {{result}}"),
    ), "By what they decide; unknown ones are read and tried again."),
    Panel("Rows without a known end", "short", (each("timerd_ledger_imbalance_rows"),), "Must be 0.", 1),
    Panel("Hints lost", "ops", (
        Query(rate("timerd_hints_dropped_total", "instance"), "{{instance}}"),
        Query(rate("timerd_hint_messages_total", "instance, outcome"), "{{instance}} Redis: {{outcome}}"),
        Query(rate("timerd_sweep_rescued_rows_total", "instance"), "{{instance}} found by the sweep"),
    ), "The sweep finds those rows, up to a second late."),
))  # fmt: skip

STORE = Row("How is the store?", (
    Panel("Calls, p99", "s", (Query(percentile(0.99, "timerd_store_duration_seconds", "call"), "{{call}}"),),
          "By call; append is what Schedule waits for."),
    Panel("Calls", "ops", (Query(rate("timerd_store_duration_seconds_count", "call"), "{{call}}"),), "A second."),
    Panel("Errors", "ops", (Query(rate("timerd_store_errors_total", "instance, call, error"),
                                  "{{instance}} {{call}} {{error}}"),),
          "unavailable: nothing was written; unknown: nobody can say."),
    Panel("Disk", "bytes", (
        Query(f"timerd_disk_used_bytes{{{HERE}}}", "{{instance}} used"),
        Query(f"timerd_disk_free_bytes{{{HERE}}}", "{{instance}} free"),
    ), "Of the data; SQLite only."),
    Panel("Rows by their end", "short", (Query(f"sum by (outcome) (timerd_ledger_rows{{{HERE}}})", "{{outcome}}"),),
          "Of the buckets that are kept."),
))  # fmt: skip

MACHINE = Row("Has it room?", (
    Panel("Memory budget in use", "percentunit", (
        Query(f"timerd_memory_used_bytes{{{HERE}}} / timerd_memory_budget_bytes{{{HERE}}}", "{{instance}}"),
    ), "What loaded tasks take of `memory_budget`; beyond it the rest of a bucket waits in the store.", 0.9),
    Panel("Ingest budget in use", "percentunit", (
        Query(f"timerd_ingest_used_bytes{{{HERE}}} / timerd_ingest_budget_bytes{{{HERE}}}", "{{instance}}"),
    ), "Beyond it callers get RESOURCE_EXHAUSTED.", 0.9),
    Panel("Tasks in memory", "short", (each("timerd_tasks_loaded"),), "Loaded and waiting for their time."),
    Panel("Lag of the event loop, p99", "s", (
        Query(percentile(0.99, "timerd_event_loop_lag_seconds", "instance"), "{{instance}}"),
    ), "A process that is short of processor time is late with everything."),
    Panel("Processor", "short", (Query(rate("process_cpu_seconds_total", "instance"), "{{instance}}"),), "Cores."),
    Panel("Resident memory", "bytes", (each("process_resident_memory_bytes"),), "Of the process."),
    Panel("Clock", "s", (
        each("timerd_clock_offset_seconds"),
    ), "Wall clock less engine time."),
    Panel("Clock is trusted", "short", (each("timerd_clock_trusted"),), "0: it jumped, and nothing fires."),
))  # fmt: skip

ROWS = (FIRING, LOAD, HOLDING, STORE, MACHINE)


def dashboard() -> Json:
    return {
        "uid": "timerd",
        "title": "timerd",
        "tags": ["timerd"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,
        "templating": {"list": list(_choices())},
        "panels": list(_panels(ROWS)),
    }


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


def _choices() -> Iterator[Json]:
    yield {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    for name, query in (
        ("job", "label_values(timerd_build_info, job)"),
        ("instance", 'label_values(timerd_build_info{job=~"$job"}, instance)'),
        ("queue", 'label_values(timerd_delivery_lateness_seconds_count{job=~"$job"}, queue)'),
    ):
        yield {
            "name": name, "type": "query", "datasource": SOURCE, "query": query, "definition": query, "refresh": 2,
            "multi": True, "includeAll": True, "allValue": ".*", "sort": 1,
            "current": {"text": "All", "value": "$__all"},
        }  # fmt: skip


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    """From left to right, row after row."""
    top, number = 0, 0
    for row in rows:
        number += 1
        yield {"id": number, "type": "row", "title": row.question, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": top, "w": COLUMNS, "h": 1}}  # fmt: skip
        top += 1
        for place, panel in enumerate(row.panels):
            number += 1
            line, column = divmod(place, ABREAST)
            width = COLUMNS // ABREAST
            where = {"x": column * width, "y": top + line * PANEL_ROWS, "w": width, "h": PANEL_ROWS}
            yield _panel(panel, number, where)
        top += PANEL_ROWS * -(-len(row.panels) // ABREAST)


def _panel(panel: Panel, number: int, where: Json) -> Json:
    steps: list[Json] = [{"color": "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "red", "value": panel.red})
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "gridPos": where,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": None if panel.title == "Clock" else 0,
                "thresholds": {"mode": "absolute", "steps": steps},
                "custom": {
                    "drawStyle": "line", "fillOpacity": 5, "showPoints": "never",
                    "thresholdsStyle": {"mode": "off" if panel.red is None else "line"},
                },
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": query.expression, "legendFormat": query.name}
            for place, query in enumerate(panel.queries)
        ],
    }  # fmt: skip
