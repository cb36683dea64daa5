"""The setting `dead_letter_default`: subscriptions made without a policy have dead letters."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core.exceptions import InvalidArgument
from google.pubsub_v1 import types

from commands import invoke
from fanlog.server.resource_file import ensure_resources, read_resources
from server.conftest import PATIENCE_S, PROJECT, RunningServer, StartServer
from server.rest.http import Http
from server.unique import unique


@pytest.fixture
def bus(start_server: StartServer) -> RunningServer:
    return start_server("memory", dead_letter_default="auto")


def own_topic(subscription: str) -> str:
    return subscription.replace("/subscriptions/", "/topics/") + ".dead-letters"


def letters_of(server: RunningServer, subscription: str) -> str:
    shown = server.subscriber.get_subscription(subscription=subscription)
    return str(shown.dead_letter_policy.dead_letter_topic)


def test_none_is_the_default(server):
    _, subscription = server.topic_and_subscription()
    assert letters_of(server, subscription) == ""


def test_a_message_that_fails_too_often_is_a_dead_letter(bus):
    topic, subscription = bus.topic_and_subscription()
    letters = own_topic(subscription)
    shown = bus.subscriber.get_subscription(subscription=subscription)
    assert shown.dead_letter_policy.dead_letter_topic == letters
    assert shown.dead_letter_policy.max_delivery_attempts == 5
    # Labels are the caller's own.
    assert not shown.labels
    # The topic is there to be seen, and somebody reads it.
    assert letters in [one.name for one in bus.publisher.list_topics(project=f"projects/{PROJECT}")]
    reader = f"{subscription}.dead-letters"
    assert list(bus.publisher.list_topic_subscriptions(topic=letters)) == [reader]
    assert letters_of(bus, reader) == ""
    bus.publish(topic, b"0")
    for _ in range(5):
        bus.nack(subscription, bus.await_pull(subscription))
    [letter] = bus.await_pull(reader)
    assert letter.message.data == b"0"


def test_a_policy_of_ones_own_stays(bus):
    letters = bus.topic()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": 7}
    _, subscription = bus.topic_and_subscription(dead_letter_policy=policy)
    assert letters_of(bus, subscription) == letters


def test_no_chains(bus):
    # A subscription on a topic of dead letters, whoever made it, has none of its own.
    letters = bus.topic()
    bus.subscription(bus.topic(), dead_letter_policy={"dead_letter_topic": letters})
    assert letters_of(bus, bus.subscription(letters)) == ""
    _, subscription = bus.topic_and_subscription()
    assert letters_of(bus, bus.subscription(own_topic(subscription))) == ""


def test_the_label_none_and_what_cannot_fail_are_left_out(bus):
    topic = bus.topic()
    plain = bus.subscription(topic, labels={"fanlog-dead-letter": "none"})
    assert letters_of(bus, plain) == ""
    forwarding = {"push_endpoint": f"topic:{bus.topic()}"}
    assert letters_of(bus, bus.subscription(topic, push_config=forwarding)) == ""
    pushing = {"push_endpoint": "http://127.0.0.1:9/"}
    pushed = bus.subscription(topic, push_config=pushing)
    assert letters_of(bus, pushed) == own_topic(pushed)
    letters = {"dead_letter_topic": bus.topic()}
    with pytest.raises(InvalidArgument, match="'none' with a dead_letter_policy"):
        bus.subscription(topic, labels={"fanlog-dead-letter": "none"}, dead_letter_policy=letters)


def trailers(server: RunningServer, **fields: Any) -> dict[str, str]:
    with server.channel() as channel:
        call: Any = channel.unary_unary("/google.pubsub.v1.Subscriber/CreateSubscription")
        raw = types.Subscription.serialize(types.Subscription(**fields))
        _, finished = call.with_call(raw, timeout=PATIENCE_S)
    return dict(finished.trailing_metadata() or ())


def test_where_it_cannot_be_the_answer_says_why(bus):
    bus.topic(name="projects/all/topics/orders")
    everything = "projects/all/subscriptions/everything"
    said = trailers(bus, name=everything, topic="projects/all/topics/#")["fanlog-hint"]
    assert "it has no dead letters" in said
    assert "would read its own dead letter topic" in said
    assert letters_of(bus, everything) == ""
    long = f"projects/all/subscriptions/{'s' * 250}"
    assert (
        "the topic would be called"
        in trailers(bus, name=long, topic="projects/all/topics/orders")["fanlog-hint"]
    )
    fine = f"projects/all/subscriptions/{unique('fine')}"
    assert "fanlog-hint" not in trailers(bus, name=fine, topic="projects/all/topics/orders")


def test_taken_away_it_stays_away(bus):
    _, subscription = bus.topic_and_subscription()
    mask = {"paths": ["dead_letter_policy"]}
    request = {"subscription": {"name": subscription}, "update_mask": mask}
    bus.subscriber.update_subscription(request=request)
    assert letters_of(bus, subscription) == ""


def test_both_forms_of_rest(bus):
    call = Http(bus)
    call("POST", "/v1/topics", {"name": "orders"})
    made = call("POST", "/v1/subscriptions", {"name": "short", "topic": "orders"}).json()
    assert made["dead_letter"]["topic"] == "short.dead-letters"
    path = "/v1/projects/fanlog/subscriptions/whole"
    body = {"topic": "projects/fanlog/topics/orders"}
    # Said again, it is the same: the policy that it got is none that is to be taken away.
    for _ in range(2):
        policy = call("PUT", path, body).json()["deadLetterPolicy"]
        assert policy["deadLetterTopic"] == "projects/fanlog/topics/whole.dead-letters"
    call.close()


def test_the_command_line(bus):
    def run(*args: str) -> str:
        result = invoke(args, env={"PUBSUB_EMULATOR_HOST": bus.endpoint})
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    run("topic", "create", "orders")
    made = run("sub", "create", "billing", "--topic", "orders")
    assert made.endswith("; dead letters go to projects/fanlog/topics/billing.dead-letters\n")
    made = run("sub", "create", "audit", "--topic", "orders", "--no-dead-letter")
    assert "dead letters" not in made
    assert "dead_letter" not in run("sub", "describe", "audit").replace("fanlog-dead-letter", "")


def test_a_resources_file(bus, tmp_path, caplog, loop_thread):
    path = tmp_path / "r.toml"
    path.write_text('[topics.orders]\n[subscriptions.billing]\ntopic = "orders"\n')
    for _ in range(2):
        loop_thread.run(ensure_resources(bus.broker, read_resources(path, "filed")))
    billing = "projects/filed/subscriptions/billing"
    assert letters_of(bus, billing) == own_topic(billing)
    assert "resource_differs" not in caplog.text
