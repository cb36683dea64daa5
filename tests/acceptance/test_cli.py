"""What the README's first screen shows, and what happens around it."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request

import pytest

from acceptance.served import FANLOG, PATIENCE_S, PORTS, Served


def with_billing(server: Served) -> Served:
    server.run("topic", "create", "orders")
    server.run("sub", "create", "billing", "--topic", "orders")
    return server


@pytest.fixture
def billing(served: Served) -> Served:
    return with_billing(served)


@pytest.fixture
def shared_billing(shared: Served) -> Served:
    return with_billing(shared)


def data_of(lines: list[dict]) -> list[str]:
    return [line["data"] for line in lines]


def test_first_screen(served):
    assert served.run("topic", "create", "orders").stdout == (
        "created topic projects/fanlog/topics/orders\n"
    )
    served.run("sub", "create", "billing", "--topic", "orders")
    published = served.run("publish", "orders", "two chairs", "--attr", "region=eu").stdout
    assert published.startswith("published message ")
    pulled = served.run("pull", "billing", "--ack")
    assert pulled.stdout.endswith("  region=eu  two chairs\n")
    assert pulled.stderr == ""
    assert served.run("pull", "billing").stderr == "no messages\n"
    wanted = "region=eu* OR payload.amount >= 1000"
    assert served.run(
        "sub", "create", "europe", "--topic", "order*", "--filter", wanted
    ).stdout == (
        "created subscription projects/fanlog/subscriptions/europe"
        " on projects/fanlog/topics/order*\n"
    )


def test_what_was_published_survives_sigkill(billing):
    billing.run("publish", "orders", "-", stdin="one\ntwo\nthree\n")
    [first] = billing.lines("pull", "billing", "--max", "1", "--ack")
    status, _ = billing.stop(signal.SIGKILL)
    assert status == -signal.SIGKILL
    billing.start()
    # An ack without exactly-once is durable once answered, too; what was not acked is back.
    rest = billing.lines("pull", "billing", "--max", "10", "--wait", "10s", "--ack")
    assert sorted([first["data"], *data_of(rest)]) == ["one", "three", "two"]


def test_sigterm_drains_and_exits_with_zero(billing):
    billing.run("publish", "orders", "one")
    status, said = billing.stop()
    assert (status, said) == (0, "")
    assert billing.start().startswith("fanlog ready")
    assert data_of(billing.lines("pull", "billing", "--ack")) == ["one"]


def test_follow_shows_messages_as_they_come(shared_billing):
    follower = subprocess.Popen(
        [*FANLOG, "pull", "billing", "--follow", "--ack", "--max", "3", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=shared_billing.environ,
    )
    with follower:
        for text in ("one", "two", "three"):
            shared_billing.run("publish", "orders", text)
            assert json.loads(follower.stdout.readline())["data"] == text
        assert follower.wait(PATIENCE_S) == 0


def test_lists_and_descriptions(shared_billing):
    flags = ["--retention", "1d", "--ordering"]
    shared_billing.run("sub", "create", "audit", "--topic", "orders", *flags)
    names = [line["name"] for line in shared_billing.lines("sub", "list")]
    of_project = f"projects/{shared_billing.project}/subscriptions"
    assert names == [f"{of_project}/audit", f"{of_project}/billing"]
    [audit] = shared_billing.lines("sub", "describe", "audit")
    assert audit["message_retention_duration"] == "86400s"
    assert audit["enable_message_ordering"] is True
    [orders] = shared_billing.lines("topic", "describe", "orders")
    assert sorted(orders["subscriptions"]) == names


def test_create_with_everything_the_api_knows(shared):
    shared.run("topic", "create", "orders", "--retention", "1h", "--label", "team=shop")
    shared.run("topic", "create", "failed")
    shared.run("publish", "orders", "before")
    [made] = shared.lines(
        "sub", "create", "billing", "--topic", "orders",
        "--ack-deadline", "60s", "--retention", "2d", "--retain-acked", "--strict-order",
        "--exactly-once", "--dead-letter", "failed", "--max-attempts", "7",
        "--min-backoff", "1s", "--max-backoff", "60s", "--expiration", "never",
        "--start", "earliest", "--label", "team=shop",
    )  # fmt: skip
    assert made["dead_letter_policy"] == {
        "dead_letter_topic": f"projects/{shared.project}/topics/failed",
        "max_delivery_attempts": 7,
    }
    assert made["retry_policy"] == {"minimum_backoff": "1s", "maximum_backoff": "60s"}
    assert made["expiration_policy"] == {}
    assert data_of(shared.lines("pull", "billing", "--ack")) == ["before"]


def test_dead_letter_auto_makes_a_topic_and_a_subscription(shared):
    shared.run("topic", "create", "orders")
    shared.run(
        "sub", "create", "billing", "--topic", "orders", "--dead-letter", "auto",
        "--max-attempts", "6",
    )  # fmt: skip
    letters = f"projects/{shared.project}/topics/billing.dead-letters"
    assert letters in shared.run("topic", "list").stdout
    assert "billing.dead-letters" in shared.run("sub", "list").stdout
    [made] = shared.lines("sub", "describe", "billing")
    assert made["dead_letter_policy"]["max_delivery_attempts"] == 6


def test_a_pattern_and_a_filter(shared):
    shared.run("topic", "create", "orders.eu.created")
    shown = shared.run(
        "sub",
        "create",
        "large",
        "--topic",
        "orders.*.created",
        "--filter",
        "payload.amount >= 1000",
    )
    assert shown.stdout == (
        f"created subscription projects/{shared.project}/subscriptions/large"
        f" on projects/{shared.project}/topics/orders.*.created\n"
    )
    # A topic that comes later joins.
    shared.run("topic", "create", "orders.us.created")
    for topic in ("orders.eu.created", "orders.us.created"):
        shared.run("publish", topic, "-", stdin='{"amount": 1500}\n{"amount": 15}\nnone\n')
    pulled = shared.lines("pull", "large", "--ack")
    assert data_of(pulled) == ['{"amount": 1500}'] * 2
    assert sorted(line["attributes"]["fanlog-topic"].rpartition("/")[2] for line in pulled) == [
        "orders.eu.created",
        "orders.us.created",
    ]
    [large] = shared.lines("sub", "describe", "large")
    assert large["filter"] == "payload.amount >= 1000"
    assert "payload.amount >= 1000" in shared.run("sub", "list").stdout

    shared.run("sub", "update", "large", "--filter", "payload.amount < 1000")
    shared.run("publish", "orders.eu.created", "-", stdin='{"amount": 1500}\n{"amount": 15}\n')
    assert data_of(shared.lines("pull", "large", "--ack")) == ['{"amount": 15}']
    [large] = shared.lines("sub", "update", "large", "--no-filter")
    assert "filter" not in large
    shared.run("publish", "orders.eu.created", "anything")
    assert data_of(shared.lines("pull", "large", "--ack")) == ["anything"]


def test_a_pattern_that_looks_as_if_it_matched_gets_a_hint(shared):
    shared.run("topic", "create", "OrderPlaced")
    shared.run("topic", "create", "OrderSent")
    made = shared.run("sub", "create", "audit", "--topic", "Order.*")
    assert made.stdout.startswith("created subscription ")
    assert made.stderr.startswith("hint: 'Order.*' matches no topic yet")
    assert made.stderr.endswith("'Order*' would match 'OrderPlaced', 'OrderSent'\n")


def test_seek_there_and_back(shared):
    shared.run("topic", "create", "orders")
    shared.run("sub", "create", "billing", "--topic", "orders", "--retain-acked")
    shared.run("publish", "orders", "-", stdin="one\ntwo\n")
    shared.run("sub", "seek", "billing", "--end")
    assert shared.lines("pull", "billing") == []
    shared.run("sub", "seek", "billing", "--begin")
    assert data_of(shared.lines("pull", "billing", "--ack")) == ["one", "two"]
    shared.run("sub", "seek", "billing", "--time", "1h")
    assert data_of(shared.lines("pull", "billing", "--ack")) == ["one", "two"]
    # The end was where the log ended then, not a time to come.
    shared.run("sub", "seek", "billing", "--end")
    shared.run("publish", "orders", "three")
    assert data_of(shared.lines("pull", "billing", "--ack")) == ["three"]


class TestMistakes:
    def sentence(self, served: Served, *args: object) -> str:
        stderr = served.run(*args, exit_code=1).stderr
        assert stderr.startswith("fanlog: ")
        assert stderr.count("\n") == 1
        return stderr

    def test_no_server(self, served):
        served.stop()
        assert "fanlog serve" in self.sentence(served, "topic", "list")

    def test_missing_topic(self, shared):
        assert "orders" in self.sentence(shared, "publish", "orders", "x")
        assert "orders" in self.sentence(shared, "sub", "create", "billing", "--topic", "orders")

    def test_missing_subscription(self, shared):
        assert "billing" in self.sentence(shared, "pull", "billing")

    def test_created_twice(self, shared_billing):
        assert "orders" in self.sentence(shared_billing, "topic", "create", "orders")

    def test_bad_name(self, shared):
        assert "'9lives'" in self.sentence(shared, "topic", "create", "9lives")

    def test_out_of_range(self, shared_billing):
        message = self.sentence(
            shared_billing, "sub", "create", "audit", "--topic", "orders", "--ack-deadline", "5s"
        )
        assert "10" in message
        assert "600" in message

    def test_filter(self, shared_billing):
        refused = self.sentence(
            shared_billing, "sub", "create", "audit", "--topic", "orders", "--filter", "a == 1"
        )
        assert "at column 3" in refused

    def test_second_server_on_the_folder(self, shared):
        message = self.sentence(shared, "serve", *PORTS, "--data-dir", shared.data_dir)
        assert "in use" in message


class TestFolder:
    def test_doctor_of_a_running_broker(self, billing):
        billing.run("publish", "orders", "-", stdin="one\ntwo\n")
        [report] = billing.lines("doctor", "--data-dir", billing.data_dir)
        assert report["is_healthy"]
        assert report["message_count"] == 2

    def test_backup_while_running_and_restore(self, billing, tmp_path):
        billing.run("publish", "orders", "-", stdin="one\ntwo\n")
        billing.run("backup", tmp_path / "copy", "--data-dir", billing.data_dir)
        billing.run("publish", "orders", "after the backup")
        billing.stop()
        billing.data_dir = tmp_path / "restored"
        billing.run("restore", tmp_path / "copy", "--data-dir", billing.data_dir)
        billing.start()
        assert data_of(billing.lines("pull", "billing")) == ["one", "two"]

    def test_compact_needs_a_stopped_broker(self, billing):
        in_use = billing.run("compact", "--data-dir", billing.data_dir, exit_code=1)
        assert "in use" in in_use.stderr
        billing.run("publish", "orders", "one")
        billing.stop()
        billing.run("compact", "--data-dir", billing.data_dir)
        billing.start()
        assert data_of(billing.lines("pull", "billing")) == ["one"]


@pytest.mark.parametrize("page", ["healthz", "readyz", "metrics"])
def test_http_port_answers(shared, page):
    with urllib.request.urlopen(f"http://{shared.http}/{page}", timeout=PATIENCE_S) as answer:
        assert answer.status == 200


def test_schemas(shared, tmp_path):
    first, second = tmp_path / "order.avsc", tmp_path / "order-2.txt"
    text = {"name": "id", "type": "string"}
    count = {"name": "count", "type": "int"}
    order = {"type": "record", "name": "Order", "fields": [text]}
    first.write_text(json.dumps(order))
    second.write_text(json.dumps(order | {"fields": [text, count]}))
    made = shared.run("schema", "create", "order", str(first), "--compatibility", "backward")
    name = f"projects/{shared.project}/schemas/order"
    assert made.stdout.startswith(f"created schema {name}, revision ")
    [listed] = map(json.loads, shared.run("schema", "list", "--json").stdout.splitlines())
    assert (listed["name"], listed["type"]) == (name, "avro")
    commit = ("schema", "commit", "order", str(second))
    refused = shared.run(*commit, exit_code=1).stderr
    assert "does not say by its ending what it is" in refused
    refused = shared.run(*commit, "--type", "avro", exit_code=1).stderr
    assert "$.count: the field is not written by the other, and has no default" in refused
    shared.run(*commit, "--type", "avro", "--compatibility", "none")
    [shown] = map(
        json.loads, shared.run("schema", "describe", "order", "--json").stdout.splitlines()
    )
    assert (shown["compatibility"], len(shown["revisions"])) == ("none", 2)
    old = shared.run("schema", "describe", "order", "--revision", listed["revision_id"], "--json")
    assert json.loads(old.stdout)["definition"] == first.read_text()
    shared.run("topic", "create", "orders", "--schema", "order")
    shared.run("publish", "orders", '{"id": "x"}')
    refused = shared.run("publish", "orders", "{}", exit_code=1).stderr
    assert "messages[0].data: $: the field 'id' of record Order is missing" in refused
    shared.run("schema", "delete", "order")
    assert "_deleted-schema_" in shared.run("topic", "describe", "orders").stdout
