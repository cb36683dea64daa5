"""An endpoint for push: a real HTTP server on its own threads that answers as a test tells it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from server.conftest import PATIENCE_S, RunningServer


@dataclass
class Received:
    path: str
    headers: dict[str, str]
    body: bytes
    time_s: float = field(default_factory=time.monotonic)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> bytes:
        import base64

        return base64.b64decode(self.json["message"].get("data", ""))


#: A status; or a status, headers and body; or None to say nothing and hang up.
Answer = int | tuple[int, dict[str, str], bytes] | None


class Receiver:
    """Keeps the requests that came. `answer` decides, in a request's thread, and may be slow."""

    def __init__(self, answer: Callable[[Received], Answer] = lambda _: 204) -> None:
        self.answer = answer
        self.received: list[Received] = []
        self._came = threading.Condition()
        self.closing = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                got = Received(self.path, dict(self.headers.items()), self.rfile.read(size))
                receiver.note(got)
                answer = receiver.answer(got)
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, body = answer if isinstance(answer, tuple) else (answer, {}, b"")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204 and "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, *_: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def note(self, got: Received) -> None:
        with self._came:
            self.received.append(got)
            self._came.notify_all()

    def wait(self, count: int, path: str | None = None) -> list[Received]:
        """The requests that came, once there are `count` of them."""

        def found() -> list[Received]:
            return [one for one in self.received if path is None or one.path == path]

        with self._came:
            assert self._came.wait_for(lambda: len(found()) >= count, PATIENCE_S), len(found())
            return found()

    def wait_until(self, is_enough: Callable[[list[Received]], bool]) -> None:
        """Wait until `is_enough` says so of the requests that came."""
        with self._came:
            assert self._came.wait_for(lambda: is_enough(self.received), PATIENCE_S)

    def hang(self) -> None:
        """Say nothing until the receiver closes."""
        self.closing.wait()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)


@contextmanager
def receiving(answer: Callable[[Received], Answer] = lambda _: 204) -> Iterator[Receiver]:
    receiver = Receiver(answer)
    try:
        yield receiver
    finally:
        receiver.close()


def push_elsewhere(server: RunningServer) -> None:
    """Push a message to another receiver: requests that were due before it are sent by then."""
    with receiving() as other:
        topic, name = server.topic_and_subscription(push_config={"push_endpoint": other.url()})
        server.publish(topic, b"elsewhere")
        other.wait(1)
        server.await_drained(name)
