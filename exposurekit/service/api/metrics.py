"""Metrics in the format of Prometheus, on a port of their own.

Requests are counted in this process, or in the files of several processes, which are added up. Jobs, deliveries and
site scans are read from the database when Prometheus asks, in a thread and over a connection of their own, so that a
scrape holds up no request. Labels hold operations, kinds, states, reasons and names of sites, and nothing of an
integrator or a person.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    values,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exposurekit.contract.operations import OPERATIONS
from exposurekit.service import jobs, workers
from exposurekit.service.api.middleware import UNAVAILABLE
from exposurekit.service.errors import QUOTA_REASON
from exposurekit.service.jobs import Queue
from exposurekit.service.sites import statistics
from exposurekit.service.storage.database import DATABASE_ERRORS, Database, Session
from exposurekit.service.webhooks import outbox
from exposurekit.system.asgi_server import LOOPBACK, running
from exposurekit.system.connection_limits import Connections

READ_S = 5.0  # after which PostgreSQL counts as unavailable; Prometheus waits ten seconds
CONNECTIONS_MAX = 32
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)  # seconds
NO_OPERATION = "none"  # no operation has the path, as in the log
NO_RESPONSE = "none"  # the client was gone before a response
UNAVAILABLE_REASON, FAILURE_REASON = "database_unavailable", "internal_error"
REASONS = {
    400: "invalid",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
    500: FAILURE_REASON,
    503: "overloaded",
}
OTHER_REASON = "other"
_LEAST_ERROR = 400
_log = logging.getLogger("exposurekit.service")


@dataclass(frozen=True, slots=True)
class SharedRegistries:
    """The registries of several server processes: their directory, and the ids of the running processes by their labels."""

    directory: Path
    pids: Callable[[], Mapping[str, int]]


def shared_registry(directory: Path, process: int) -> CollectorRegistry:
    """Return the registry of one of several server processes, for the rest of this process.

    Its counts are in files, which the metrics of another process add up. A process that has the number of one that was
    killed continues its counts.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(directory)  # where the library reads it
    values.ValueClass = values.MultiProcessValue(lambda: process)  # type: ignore[no-untyped-call]
    return CollectorRegistry()


class Metrics:
    """The metrics of one process, or of several.

    Args:
        database: Read for each scrape; no other event loop may use this object.
        shared: The registries of the processes that serve; by default, this one does.
    """

    def __init__(self, database: Database, shared: SharedRegistries | None = None) -> None:
        self._database = database
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series
        self.registry = CollectorRegistry()
        if shared is None:
            ProcessCollector(registry=self.registry)
        else:
            MultiProcessCollector(self.registry, path=str(shared.directory))  # type: ignore[no-untyped-call]
            self.registry.register(_ProcessesCollector(shared.pids))

    @contextmanager
    def serving(self, port: int) -> Iterator[str]:
        """Serve ``/metrics`` on a loopback port in a thread, for the duration of the block; yields the URL.

        Raises `ConfigurationError` if the port cannot be bound, or the database not be opened.
        """
        app = Starlette(routes=[Route("/metrics", self._respond)], lifespan=self._lifespan)
        with running(
            app, LOOPBACK, port, connections=Connections(CONNECTIONS_MAX), is_announced=False
        ) as base_url:
            url = f"{base_url}/metrics"
            _log.info("metrics=%s", url)
            yield url

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self._database.open()
        try:
            yield
        finally:
            await self._database.close()

    async def _respond(self, request: Request) -> Response:
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        families = await _read(self._database)
        return Response(encode(_Joined(self.registry, families)), media_type=media_type)


class _ProcessesCollector(Collector):
    """Memory, CPU time and open files of several processes, by their labels."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for label, pid in self._pids().items():
            for one in ProcessCollector(pid=partial(int, pid), registry=None).collect():
                family = families.setdefault(one.name, Metric(one.name, one.documentation, one.type))
                for sample in one.samples:
                    family.add_sample(sample.name, {"process": label}, sample.value)
        yield from families.values()


class _Joined:
    """The process's own metrics, and those of the database."""

    def __init__(self, registry: CollectorRegistry, families: Iterable[Metric]) -> None:
        self._registry = registry
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._registry.collect()
        yield from self._families


class RequestMetrics:
    """Counts of requests, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "exposurekit_requests",
            "Requests by operation and class of the response's status.",
            ("operation", "status"),
            registry=registry,
        )
        self._durations = Histogram(
            "exposurekit_request_duration_seconds",
            "Time from a request's headers to the end of its response.",
            ("operation",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._refusals = Counter(
            "exposurekit_refused_requests",
            "Requests that were answered with an error, by reason.",
            ("reason",),
            registry=registry,
        )
        # Series that exist from the start: a rate of what begins with its first event misses that event.
        for operation in (*(one.name for one in OPERATIONS), NO_OPERATION):
            self._durations.labels(operation)
            for status in ("2xx", "4xx", "5xx"):
                self._requests.labels(operation, status)
        for reason in (*REASONS.values(), QUOTA_REASON, UNAVAILABLE_REASON, OTHER_REASON):
            self._refusals.labels(reason)

    def count(
        self, operation: str, status: int | None, cause: Exception | str | None, seconds: float
    ) -> None:
        """Count a request as `RequestMiddleware` says."""
        self._requests.labels(operation, NO_RESPONSE if status is None else f"{status // 100}xx").inc()
        self._durations.labels(operation).observe(seconds)
        if isinstance(cause, UNAVAILABLE):
            self._refusals.labels(UNAVAILABLE_REASON).inc()
        elif isinstance(cause, str):
            self._refusals.labels(cause).inc()
        elif status is not None and status >= _LEAST_ERROR:
            self._refusals.labels(REASONS.get(status, OTHER_REASON)).inc()


async def _read(database: Database) -> list[Metric]:
    """Read the database; if that fails, the only metric is that it is not up.

    A read of SQLite does not wait for anything that could be cancelled: it ends, however long it takes.
    """
    started = time.perf_counter()
    families: list[Metric] = []
    try:
        async with asyncio.timeout(READ_S), database.reading() as session:
            families = await _families(session)
    except DATABASE_ERRORS as fault:
        _log.error("metrics=database fault=%s: %s", type(fault).__name__, database.explain(fault))
    up = GaugeMetricFamily("exposurekit_database_up", "Whether this scrape could read the database.")
    up.add_metric((), bool(families))
    took = GaugeMetricFamily(
        "exposurekit_database_read_seconds", "Time in which this scrape read the database."
    )
    took.add_metric((), time.perf_counter() - started)
    return [up, took, *families]


async def _families(session: Session) -> list[Metric]:
    queues = await jobs.queues(session)
    states = GaugeMetricFamily(
        "exposurekit_webhook_deliveries",
        "Webhook deliveries by state. Dead: every attempt failed. Delivered ones are deleted after 90 days.",
        labels=("state",),
    )
    for state, count in (await outbox.counts(session)).items():
        states.add_metric((state,), count)
    corrections = GaugeMetricFamily(
        "exposurekit_clock_correction_timestamp_seconds",
        "When jobs were last made due that a clock that was ahead had put off.",
        labels=("kind",),
    )
    for one in await jobs.clock_corrections(session):
        corrections.add_metric((one.kind,), one.at.timestamp())
    running = GaugeMetricFamily(
        "exposurekit_workers", "Workers that run; one that was killed counts for up to 150 seconds more."
    )
    running.add_metric((), (await workers.count(session)).running)
    return [
        running,
        *_queue_families(session, queues),
        states,
        corrections,
        *_site_families(await statistics.all(session)),
    ]


def _queue_families(session: Session, queues: dict[str, Queue]) -> Iterator[Metric]:
    counts = GaugeMetricFamily(
        "exposurekit_jobs",
        "Jobs that are due later (waiting), due now, or leased by a worker.",
        labels=("kind", "state"),
    )
    ages = GaugeMetricFamily(
        "exposurekit_oldest_due_job_age_seconds",
        "How long the job that has waited longest has been due; 0: none is due.",
        labels=("kind",),
    )
    now = session.clock.now()
    for kind, queue in queues.items():
        for state in ("waiting", "due", "leased"):
            counts.add_metric((kind, state), getattr(queue, state))
        oldest = now if queue.oldest_due_at is None else queue.oldest_due_at
        ages.add_metric((kind,), (now - oldest).total_seconds())
    yield from (counts, ages)


def _site_families(sites: Iterable[statistics.Health]) -> Iterator[Metric]:
    scans = CounterMetricFamily("exposurekit_site_scans", "Site scans.", labels=("site",))
    inconclusive = CounterMetricFamily(
        "exposurekit_site_scans_inconclusive",
        "Site scans that could not tell whether a person is listed.",
        labels=("site",),
    )
    untrusted = CounterMetricFamily(
        "exposurekit_site_scans_untrusted",
        "Site scans in which the site listed an invented person.",
        labels=("site",),
    )
    last_good = GaugeMetricFamily(
        "exposurekit_site_last_good_scan_timestamp_seconds",
        "When the last conclusive and trusted scan of the site ended.",
        labels=("site",),
    )
    for one in sites:
        if not one.scans:
            continue
        scans.add_metric((one.site,), one.scans)
        inconclusive.add_metric((one.site,), one.inconclusive_scans)
        untrusted.add_metric((one.site,), one.untrusted_scans)
        if one.last_good_scan_at is not None:
            last_good.add_metric((one.site,), one.last_good_scan_at.timestamp())
    yield from (scans, inconclusive, untrusted, last_good)
