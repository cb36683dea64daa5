"""The metrics of a server besides its broker's: a part of `fanlog.server.metric_families`."""

from __future__ import annotations

from fanlog.server.metrics.family import Family

TRANSPORT = (
    Family("fanlog_connections", "gauge", "Open connections: grpc, http.", ("protocol",)),
    Family("fanlog_grpc_calls", "counter", "gRPC calls that came."),
    Family(
        "fanlog_calls",
        "counter",
        "Calls that ended, by surface (grpc, rest), method and code: the status of gRPC, or HTTP's."
        " Of callers that left, CANCELLED and 499.",
        ("surface", "method", "code"),
    ),
    Family(
        "fanlog_connection_faults",
        "counter",
        "Connections ended because their peer broke a rule of HTTP/2, by error code.",
        ("code",),
    ),
    Family(
        "fanlog_stream_faults",
        "counter",
        "Streams reset because their peer broke a rule of HTTP/2, by error code.",
        ("code",),
    ),
    Family(
        "fanlog_grpc_streams_refused",
        "counter",
        "Streams refused because their connection had too many; clients try again.",
    ),
    Family(
        "fanlog_connections_turned_away",
        "counter",
        "Connections cut off for want of room.",
    ),
    Family(
        "fanlog_connections_sent_away",
        "counter",
        "Idle connections ended to make room for new ones.",
    ),
    Family(
        "fanlog_requests_given_up",
        "counter",
        "Requests given up: late (not whole in time), too_long, too_many (the oldest of too many"
        " unfinished bytes), unread (the answer was not read), silent (nobody there), unknown"
        " (neither HTTP/1.1 nor HTTP/2).",
        ("reason",),
    ),
)

ACCESS = (
    Family("fanlog_authentications", "counter", "Credentials that were verified and believed."),
    Family(
        "fanlog_authentication_failures",
        "counter",
        "Credentials that were not believed, by reason.",
        ("reason",),
    ),
    Family(
        "fanlog_rate_refusals",
        "counter",
        "Requests refused because a rate was used up.",
        ("rate",),
    ),
    Family("fanlog_rate_limit", "gauge", "The rates that are set.", ("rate",)),
    Family(
        "fanlog_rate_taken",
        "counter",
        "Requests, messages, bytes, connections and streams that were let in, where their rate is"
        " set.",
        ("rate",),
    ),
    Family("fanlog_audit_entries_lost", "counter", "Entries that the audit log does not have."),
)

PROCESS = (
    Family(
        "fanlog_build_info", "gauge", "1; the labels say what runs.", ("version", "python_version")
    ),
    Family("process_cpu_seconds", "counter", "Processor time of the process."),
    Family("process_start_time_seconds", "gauge", "When the process was started, since the epoch."),
    Family(
        "process_resident_memory_bytes",
        "gauge",
        "Memory of the process, the mapped pages of the log included.",
        when="on Linux",
    ),
    Family("process_open_fds", "gauge", "Open files.", when="where the system tells"),
    Family("process_max_fds", "gauge", "The most files that may be open."),
    Family("python_gc_collections", "counter", "Runs of the garbage collector.", ("generation",)),
    Family(
        "fanlog_loop_lag_seconds",
        "histogram",
        "How much later than asked for the event loop calls a timer; four looks a second.",
    ),
    Family(
        "fanlog_otlp_requests",
        "counter",
        "Requests to a collector of OTLP, by signal (metrics, traces) and outcome (ok, failed).",
        ("signal", "outcome"),
    ),
    Family(
        "fanlog_spans_dropped",
        "counter",
        "Spans that were not sent: too many waited for the collector.",
    ),
    Family(
        "fanlog_clock_steps",
        "counter",
        "Times that the machine's clock was set by more than half a second.",
    ),
)
