"""The metrics of the transport, and of who calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fanlog.server.access_control import AccessControl
from fanlog.server.metric_families import FAMILIES, column, sample
from fanlog.server.metrics.family import Labels, Reading
from fanlog.transport.counts import GIVEN_UP, TransportCounts
from fanlog.transport.statuses import NAMES


def transport_numbers(counts: TransportCounts) -> Iterator[Reading]:
    yield sample("fanlog_grpc_calls", counts.calls)
    yield _calls(counts)
    yield sample("fanlog_grpc_streams_refused", counts.streams_refused)
    yield sample("fanlog_connections_turned_away", counts.turned_away)
    yield sample("fanlog_connections_sent_away", counts.sent_away)
    for name, values, known in (
        ("fanlog_connections", counts.connections, ("grpc", "http")),
        ("fanlog_connection_faults", counts.faults, ()),
        ("fanlog_stream_faults", counts.stream_faults, ()),
        ("fanlog_requests_given_up", counts.given_up, GIVEN_UP),
    ):
        shown = (*known, *sorted(values.keys() - set(known)))
        yield column(name, {label: values[label] for label in shown})


def _calls(counts: TransportCounts) -> Reading:
    """Calls that ended, of methods and codes that there were."""
    labels: list[Labels] = []
    values: list[int] = []
    for path, ended in counts.ended.items():
        service, _, method = path.rpartition("/")
        name = f"{service.rpartition('.')[2]}.{method}"
        for code, count in enumerate(ended):
            if count:
                labels.append(("grpc", name, NAMES[code]))
                values.append(count)
    for (method, http_code), count in sorted(counts.answered.items()):
        labels.append(("rest", method, str(http_code)))
        values.append(count)
    return Reading(FAMILIES["fanlog_calls"], labels, values)


def access_numbers(access: AccessControl | None) -> Iterator[Reading]:
    """Of a server that does not authenticate, nothing happened."""
    failures: dict[str, int] = {}
    refusals: dict[str, int] = {}
    rates: dict[str, float] = {}
    taken: dict[str, float] = {}
    successes = lost = 0
    if access is not None:
        successes = access.authenticator.successes
        failures = dict(sorted(access.authenticator.failures.items()))
        if access.allowance is not None:
            for rate, limit in sorted(access.allowance.limits.items()):
                rates[rate] = limit
                taken[rate] = access.allowance.taken[rate]
                refusals[rate] = access.allowance.refusals[rate]
        lost = access.audit.lost
    yield sample("fanlog_authentications", successes)
    yield column("fanlog_authentication_failures", failures)
    yield column("fanlog_rate_refusals", refusals)
    yield column("fanlog_rate_limit", rates)
    yield column("fanlog_rate_taken", taken)
    yield sample("fanlog_audit_entries_lost", lost)


def export_numbers(exports: Mapping[str, Mapping[str, int]]) -> Reading:
    """The requests to collectors, by signal and outcome."""
    rows = {
        (signal, outcome): count
        for signal, outcomes in exports.items()
        for outcome, count in outcomes.items()
    }
    return Reading(FAMILIES["fanlog_otlp_requests"], list(rows), list(rows.values()))
