"""Two connections that talk to each other in memory."""

from __future__ import annotations

from fanlog.http2.connection import Http2Connection
from fanlog.http2.events import Event
from fanlog.http2.header_rules import Header
from fanlog.http2.settings import Http2Settings

REQUEST: list[Header] = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/service/Method"),
    (b":authority", b"here"),
    (b"content-type", b"application/grpc"),
]
#: More than anything here sends: windows of streams are what is tested.
WINDOW = 1 << 20


def server(**settings: int) -> Http2Connection:
    return Http2Connection("server", Http2Settings(**settings), window=WINDOW, now=0.0)


def client(**settings: int) -> Http2Connection:
    return Http2Connection("client", Http2Settings(**settings), window=WINDOW, now=0.0)


def output(connection: Http2Connection) -> bytes:
    return b"".join(connection.take_output())


class Pair:
    """A client and a server; `pump` carries bytes until both are silent."""

    def __init__(
        self, client_side: Http2Connection | None = None, server_side: Http2Connection | None = None
    ):
        self.client = client_side or client()
        self.server = server_side or server()
        self.at_client: list[Event] = []
        self.at_server: list[Event] = []
        self.pump()
        self.at_client.clear()
        self.at_server.clear()

    def pump(self) -> None:
        while True:
            up, down = output(self.client), output(self.server)
            if not up and not down:
                return
            self.at_server += self.server.receive(up, 0.0)
            self.at_client += self.client.receive(down, 0.0)
            # The sockets have taken everything.
            self.at_server += self.server.go_on()
            self.at_client += self.client.go_on()

    def request(self, *, ends: bool = False) -> int:
        stream_id = self.client.request(REQUEST, ends=ends)
        assert stream_id is not None
        self.pump()
        return stream_id

    def take_at_server(self) -> list[Event]:
        found, self.at_server = self.at_server, []
        return found

    def take_at_client(self) -> list[Event]:
        found, self.at_client = self.at_client, []
        return found
