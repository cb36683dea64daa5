"""`fanlog serve` as operators meet it: how it starts, refuses to start, stops and dies."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import grpc
import pytest
from google.api_core.exceptions import GoogleAPICallError, ServiceUnavailable
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport
from grpc_health.v1 import health_pb2, health_pb2_grpc

from acceptance.served import FANLOG, PATIENCE_S, PORTS, Served, clean_environ

TOPIC = "projects/p/topics/orders"
SUBSCRIPTION = "projects/p/subscriptions/billing"
#: What SIGTERM promises.
DRAIN_MAX_S = 10


class Clients:
    def __init__(self, endpoint: str) -> None:
        self.channel = grpc.insecure_channel(endpoint)
        self.publisher = gapic.PublisherClient(
            transport=PublisherGrpcTransport(channel=self.channel)
        )
        self.subscriber = gapic.SubscriberClient(
            transport=SubscriberGrpcTransport(channel=self.channel)
        )

    def make(self) -> None:
        self.publisher.create_topic(name=TOPIC)
        self.subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC)

    def publish(self, *data: bytes) -> list[str]:
        answer = self.publisher.publish(
            request={"topic": TOPIC, "messages": [{"data": one} for one in data]}, retry=None
        )
        return list(answer.message_ids)

    def pull(self, max_messages: int = 1000) -> list[Any]:
        return list(
            self.subscriber.pull(
                subscription=SUBSCRIPTION, max_messages=max_messages, retry=None, timeout=PATIENCE_S
            ).received_messages
        )

    def ack(self, received: list[Any]) -> None:
        self.subscriber.acknowledge(
            subscription=SUBSCRIPTION, ack_ids=[one.ack_id for one in received], retry=None
        )


@pytest.fixture
def clients(served: Served) -> Iterator[Clients]:
    clients = Clients(served.endpoint)
    clients.make()
    yield clients
    clients.channel.close()


def serve(*flags: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `fanlog serve` to its end, which is to come by itself."""
    return subprocess.run(
        [*FANLOG, "serve", *map(str, flags)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environ() | environ,
    )


def start_and_stop(*flags: str, cwd: Path, **environ: str) -> tuple[str, int, str]:
    """What a server says when it is ready, its exit status after SIGINT, and its log."""
    with subprocess.Popen(
        [*FANLOG, "serve", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=clean_environ() | environ,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, log = process.communicate(timeout=PATIENCE_S)
    assert rest == "", log
    return line, process.returncode, log


def assert_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    """It said why in one sentence, on standard error, and nothing else."""
    assert result.returncode not in (0, -signal.SIGTERM), result
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    for word in words:
        assert word in last, result.stderr


def get(served: Served, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{served.http}{path}", timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with closing(error):
            return error.code, error.read().decode()


# Starting.


def test_one_line_says_that_it_is_ready_and_where(tmp_path):
    server = Served(tmp_path / "data", tmp_path / "server.log")
    line = server.start()
    assert line.startswith("fanlog ready")
    assert server.endpoint in line
    assert server.http in line
    with closing(grpc.insecure_channel(server.endpoint)) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert get(server, "/readyz") == (200, "ready\n")
    status, rest = server.stop()
    server.close()
    assert (status, rest) == (0, "")


def test_a_second_process_on_a_folder_is_refused(served, clients):
    clients.publish(b"0")
    result = serve(*PORTS, "--data-dir", served.data_dir)
    assert_refused(result, str(served.data_dir), "another")
    # The first one did not notice.
    assert [m.message.data for m in clients.pull()] == [b"0"]


def test_a_folder_is_free_again_when_its_server_was_killed(served):
    served.stop(signal.SIGKILL)
    served.start()


@pytest.mark.parametrize("setting", ["port", "http_port"])
def test_a_port_that_is_taken_is_named(tmp_path, setting):
    flag = f"--{setting.replace('_', '-')}"
    other = "--http-port" if setting == "port" else "--port"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = serve(flag, port, other, 0, "--data-dir", tmp_path / "data")
    assert_refused(result, f"127.0.0.1:{port}", setting)


def test_the_port_of_another_server_is_taken(served, tmp_path):
    port = served.endpoint.rpartition(":")[2]
    result = serve("--port", port, "--http-port", 0, "--data-dir", tmp_path / "other")
    assert_refused(result, port)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com", "::"])
def test_an_address_others_can_reach_needs_insecure(tmp_path, host):
    result = serve("--host", host, *PORTS, "--data-dir", tmp_path / "data")
    assert_refused(result, host, "--insecure")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "localhost"])
def test_other_addresses_it_can_listen_on(tmp_path, host):
    server = Served(tmp_path / "data", tmp_path / "server.log")
    server.start("--host", host, "--insecure")
    try:
        clients = Clients(server.endpoint)
        clients.make()
        clients.publish(b"0")
        clients.channel.close()
        assert get(server, "/healthz") == (200, "ok\n")
    finally:
        server.close()


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    file = tmp_path / "a-file"
    file.write_text("not a folder")
    assert_refused(serve(*PORTS, "--data-dir", file), str(file))
    assert_refused(serve(*PORTS, "--data-dir", file / "below"), str(file))


def test_variables_and_a_file_are_settings_too(tmp_path):
    config = tmp_path / "fanlog.toml"
    config.write_text('data_dir = "here"\nport = 1\nhttp_port = 0\nlog_level = "error"\n')
    environ = {"FANLOG_CONFIG": str(config), "FANLOG_PORT": "0", "FANLOG_LOG_LEVEL": "info"}
    # Variables come before the file; the folder is beside the file.
    line, status, log = start_and_stop(cwd=tmp_path, **environ)
    assert status == 0
    assert line.startswith("fanlog ready")
    assert str(tmp_path / "here") in line
    assert "INFO" in log


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"FANLOG_PORT": "many"}, ["FANLOG_PORT", "many"]),
        ({"FANLOG_PROT": "1"}, ["FANLOG_PROT", "PORT"]),
        ({"FANLOG_CONFIG": "/no/such/file.toml"}, ["/no/such/file.toml"]),
        ({"FANLOG_HOST": "0.0.0.0"}, ["--insecure"]),
    ],
)
def test_settings_that_are_wrong_are_named(tmp_path, environ, words):
    assert_refused(serve("--data-dir", tmp_path / "data", **environ), *words)


def test_in_memory_nothing_is_written(tmp_path):
    line, status, _ = start_and_stop(*PORTS, "--memory", cwd=tmp_path)
    assert status == 0
    assert line.startswith("fanlog ready")
    assert "in memory" in line
    assert list(tmp_path.iterdir()) == []


# Stopping.


def test_sigterm_sends_everybody_away_and_loses_nothing(served, clients):
    """Open streams, long polls and publishers; what was acknowledged stays so."""
    clients.publish(*[b"%d" % n for n in range(10)])
    clients.ack(clients.pull(max_messages=5))
    errors: list[GoogleAPICallError] = []
    published: list[str] = []
    at_work = threading.Barrier(5)

    def stream() -> None:
        first = gapic.StreamingPullRequest(
            subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10
        )
        hold = threading.Event()

        def requests() -> Iterator[gapic.StreamingPullRequest]:
            yield first
            hold.wait(PATIENCE_S)

        at_work.wait()
        try:
            for _ in clients.subscriber.streaming_pull(requests(), retry=None):
                pass
        except GoogleAPICallError as error:
            errors.append(error)
        hold.set()

    def poll() -> None:
        at_work.wait()
        try:
            while True:
                clients.pull()
        except GoogleAPICallError as error:
            errors.append(error)

    def publish() -> None:
        at_work.wait()
        try:
            while True:
                published.extend(clients.publish(b"more"))
        except GoogleAPICallError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for work in (stream, stream, poll, publish)]
    for thread in threads:
        thread.start()
    at_work.wait()
    late = time.monotonic() + PATIENCE_S
    while len(published) < 20 or "\nfanlog_streams 2.0\n" not in get(served, "/metrics")[1]:
        assert time.monotonic() < late
    began = time.monotonic()
    status, rest = served.stop()
    took_s = time.monotonic() - began
    for thread in threads:
        thread.join(PATIENCE_S)

    assert (status, rest) == (0, "")
    assert took_s < DRAIN_MAX_S
    assert len(errors) == 4
    assert {type(error) for error in errors} == {ServiceUnavailable}
    assert "Traceback" not in served.log_path.read_text()

    served.start()
    again = Clients(served.endpoint)
    ids = set()
    while len(ids) < 5 + len(published):
        received = again.pull()
        assert received
        again.ack(received)
        ids |= {one.message.message_id for one in received}
    again.channel.close()
    assert set(published) <= ids


def test_a_client_that_does_not_read_cannot_hold_up_a_stop(served, clients):
    clients.publish(*[bytes(9_000) for _ in range(1000)])
    first = gapic.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10)
    hold = threading.Event()

    def requests() -> Iterator[gapic.StreamingPullRequest]:
        yield first
        hold.wait(PATIENCE_S)

    answers = clients.subscriber.streaming_pull(requests(), retry=None)
    next(iter(answers))
    began = time.monotonic()
    status, _ = served.stop()
    assert time.monotonic() - began < DRAIN_MAX_S
    assert status == 0
    hold.set()


def test_health_says_not_serving_while_it_drains(served, clients):
    with closing(grpc.insecure_channel(served.endpoint)) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        with ThreadPoolExecutor(1) as pool:
            # Asked for before it comes: once the call has ended, its last word may be gone.
            told = pool.submit(next, watch)
            began = time.monotonic()
            status, _ = served.stop()
            assert time.monotonic() - began < DRAIN_MAX_S
            assert status == 0
            assert told.result(DRAIN_MAX_S).status == health_pb2.HealthCheckResponse.NOT_SERVING


def test_an_idle_server_stops_at_once(served, clients):
    # A kept-alive HTTP connection and an open channel are not work.
    assert get(served, "/metrics")[0] == 200
    began = time.monotonic()
    assert served.stop() == (0, "")
    assert time.monotonic() - began < DRAIN_MAX_S / 2


# Dying.


def test_kill_keeps_everything(served, clients):
    clients.publish(*[b"%d" % n for n in range(100)])
    received = clients.pull(max_messages=100)
    clients.ack(received[:40])
    clients.subscriber.create_snapshot(
        name="projects/p/snapshots/before", subscription=SUBSCRIPTION
    )
    clients.ack(received[40:60])
    served.stop(signal.SIGKILL)

    served.start()
    again = Clients(served.endpoint)
    found = sorted(int(m.message.data) for m in again.pull())
    assert found == list(range(60, 100))
    again.subscriber.seek(
        request={"subscription": SUBSCRIPTION, "snapshot": "projects/p/snapshots/before"}
    )
    assert sorted(int(m.message.data) for m in again.pull()) == list(range(40, 100))
    again.channel.close()


def test_resources_are_there_before_it_is_ready(tmp_path):
    resources = tmp_path / "resources.toml"
    resources.write_text('[topics.orders]\n[subscriptions.billing]\ntopic = "orders"\n')
    server = Served(tmp_path / "data", tmp_path / "server.log")
    for _ in range(2):
        server.start("--resources", str(resources), "--project", "p")
        clients = Clients(server.endpoint)
        clients.publish(b"0")
        clients.ack(clients.pull())
        clients.channel.close()
        assert server.stop()[0] == 0
        server_log = server.log_path.read_text()
    server.close()
    assert server_log.count("action=resource_created") == 2
    resources.write_text('[subscriptions.lost]\ntopic = "nowhere"\n')
    result = serve(*PORTS, "--data-dir", tmp_path / "data", "--resources", resources)
    assert_refused(result, str(resources), "lost", "nowhere")
