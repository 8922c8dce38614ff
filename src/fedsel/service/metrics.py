"""Figures for Prometheus: of the run, as the database has them, and of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from fedsel._internal.extras import needed

with needed("service", "fedsel.service"):
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from fedsel.service.collector import Collector

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


@final
class Metrics:
    """What one process counts. Those of the run are the same at every process."""

    def __init__(self, collector: Collector) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfRun(collector))
        worker = {"worker": str(os.getpid())}
        self._requests = Counter(
            "fedsel_requests",
            "Requests that were answered",
            ["worker", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "fedsel_request_seconds",
            "From a request to its answer",
            ["worker", "route"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._worker = worker["worker"]
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        pair = self._known.get((route, status))
        if pair is None:  # to look labels up takes longer than to count
            pair = (
                self._requests.labels(self._worker, route, str(status)),
                self._seconds.labels(self._worker, route),
            )
            self._known[route, status] = pair
        pair[0].inc()
        pair[1].observe(seconds)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)


@final
class _OfRun:
    """The figures of the run, read when they are asked for."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def collect(self) -> Iterator[Metric]:
        collector = self._collector
        view, place = collector.view, collector.place
        yield GaugeMetricFamily("fedsel_round", "The open round", view.round)
        yield GaugeMetricFamily("fedsel_rounds", "Rounds of the run in all", view.rounds)
        opened = GaugeMetricFamily("fedsel_round_opened_seconds", "When the open round began")
        opened.add_metric([], place.opened)
        yield opened
        outcomes = CounterMetricFamily(
            "fedsel_reports", "Reports of the run by what became of them", labels=["outcome"]
        )
        sums = dict.fromkeys(place.counts._fields, 0)
        for record in view.state.records:
            for name in sums:
                sums[name] += getattr(record, name)
        for name, count in collector.counts._asdict().items():
            outcomes.add_metric([name], sums[name] + count)
        yield outcomes
        measured = view.measures[-1] if view.measures else None
        for name, value in (measured or {}).items():
            yield GaugeMetricFamily(f"fedsel_{name}", "Of the model on the test set", value)
        yield GaugeMetricFamily("fedsel_waiting", "Reports that wait here", collector.waiting)
        yield CounterMetricFamily("fedsel_commits", "Groups committed here", collector.commits)
        yield GaugeMetricFamily(
            "fedsel_store_available", "Whether the store answers here", int(collector.available)
        )
