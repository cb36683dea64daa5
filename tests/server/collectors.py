"""A collector of OTLP over HTTP, in this process."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

PATIENCE_S = 45.0


class Receiver:
    """The requests that came, in their order; each is answered by the next of `statuses`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Mapping[str, str], bytes]] = []
        #: Answers before the others, which are 200.
        self.statuses: list[int] = []
        self.url = ""

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        self.requests.append((path, headers, body))
        return self.statuses.pop(0) if self.statuses else 200

    def metrics_requests(self) -> list[ExportMetricsServiceRequest]:
        return [
            ExportMetricsServiceRequest.FromString(body)
            for path, _, body in list(self.requests)
            if path == "/v1/metrics"
        ]

    def metrics(self) -> dict[str, Metric]:
        """All metrics by name; of one that came in parts, or again, all points together."""
        found: dict[str, Metric] = {}
        for request in self.metrics_requests():
            for metric in request.resource_metrics[0].scope_metrics[0].metrics:
                if metric.name in found:
                    found[metric.name].MergeFrom(metric)
                else:
                    found[metric.name] = metric
        return found

    def spans(self) -> list[Span]:
        return [
            span
            for path, _, body in list(self.requests)
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def await_requests(self, count: int) -> None:
        late_s = time.monotonic() + PATIENCE_S
        while len(self.requests) < count:
            assert time.monotonic() < late_s, f"{len(self.requests)} requests came"
            time.sleep(0.005)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector on a port of this machine."""
    receiver = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(receiver.take(self.path, headers, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join(PATIENCE_S)
        server.server_close()
