"""Every row of `docs/reference/options.md` on every surface: same answers, same sentences."""

from __future__ import annotations

import json
import re

import pytest

from fanlog import times
from fanlog.config import PROJECT_DEFAULT
from server import asking_surfaces as asking
from server import options_page, topic_surfaces
from server.asking_surfaces import Refused, Unsaid
from server.nack_surfaces import NACKING
from server.schedule_surfaces import SCHEDULING
from server.setting_surfaces import SETTING, SHORT_NAMES
from server.topic_surfaces import TOPICS
from server.unique import unique


@pytest.fixture(scope="module")
def engine():
    return "memory"


@pytest.fixture
def server(still_server):
    return still_server


def own(kind):
    """A name in the server's own project, which the short form is about."""
    return f"projects/{PROJECT_DEFAULT}/{kind}/{unique('options')}"


def new_topic(server, **fields):
    return str(server.publisher.create_topic(request={"name": own("topics"), **fields}).name)


def new_subscription(server, topic, **fields):
    request = {"name": own("subscriptions"), "topic": topic, **fields}
    return str(server.subscriber.create_subscription(request=request).name)


def plain(sentence):
    return " ".join(sentence.split())


def named_by(where, sentence):
    """A sentence with the name that the surface has for what it is about."""
    name, colon, rest = (sentence or "").partition(":")
    names = SHORT_NAMES | topic_surfaces.SHORT_NAMES
    is_short = where == "short" and name in names
    return f"{names[name]}{colon}{rest}" if is_short else sentence


def answered(where, sentence, ask):
    """Ask, and have the answer that the reference has; False where there are no words for it."""
    sentence, refusal = named_by(where, sentence), None
    try:
        ask()
    except Unsaid:
        return False
    except Refused as refused:
        refusal = str(refused)
    assert (refusal is None) == (sentence is None), f"{where}: {refusal}"
    assert refusal is None or plain(sentence) in plain(refusal), where
    return True


MESSAGES = options_page.rows("What messages ask for")


@pytest.mark.parametrize(("said", "key", "answer"), MESSAGES, ids=[row[0] for row in MESSAGES])
def test_what_messages_ask_for(server, said, key, answer):
    sentence = options_page.sentence(answer)
    now_s = server.clock.now()

    def time(found):
        return times.of_ns(int((now_s + float(found[1])) * 1e9))

    elsewhere = server.publish(new_topic(server), b"elsewhere")[0]
    abroad = server.publish(server.topic(), b"abroad")[0]
    surfaces = []
    for publish in asking.PUBLISHING:
        topic = new_topic(server)
        subscription = new_subscription(server, topic)
        earlier = server.publish(topic, b"earlier")[0]
        ids = {"EARLIER": earlier, "ELSEWHERE": elsewhere, "ABROAD": abroad}
        ids["NEXT"] = str(int(earlier) + 1)
        text = said
        for name, message_id in ids.items():
            text = text.replace(name, message_id)
        pairs = options_page.words(re.sub(r"NOW([+-]\d+)", time, text))
        where = publish.__name__
        given = (server, topic, dict(pairs), "k" if key == "yes" else "")
        if answered(where, sentence, lambda p=publish, g=given: p(*g)):
            surfaces.append(where)
            backlog = asking.rest(server, "GET", f"/v1/{subscription}/backlog", None)
            assert int(backlog["messages"]) == 1 + (sentence is None), where
    assert {"by_grpc", "by_google_form", "by_path_form", "by_short_form"} <= set(surfaces)
    assert {"by_command", "by_client"} <= set(surfaces)


ONE_BYTE = '{"type": "fixed", "name": "one", "size": 1}'


@pytest.mark.parametrize(
    "publish", [one for one in asking.PUBLISHING if one is not asking.by_event]
)
def test_a_schema_forbids_no_option(server, publish):
    schema = own("schemas")
    server.run(server.broker.schemas.create(schema, "AVRO", ONE_BYTE))
    topic = new_topic(server, schema_settings={"schema": schema, "encoding": "BINARY"})
    name = new_subscription(server, topic)
    asked = {"fanlog-delay": "5", "fanlog-ttl": "60", "fanlog-priority": "3"}
    publish(server, topic, asked, "")
    server.advance(5)
    [one] = server.pull(name)
    assert asked.items() <= dict(one.message.attributes).items()


NEW = [
    row
    for section in (
        *("Delivery", "Consumers with key slots"),
        *("Time-to-live and dependencies of a subscription", "Backlog policies"),
        *("The window of a subscription", "Turns of tenants", "The pace of push"),
    )
    for row in options_page.rows(section)
]


@pytest.mark.parametrize(("said", "answer"), NEW, ids=[row[0] for row in NEW])
def test_settings_of_a_new_subscription(server, tmp_path, said, answer):
    sentence = options_page.sentence(answer)
    asked = json.loads(said.strip("`").replace("TOPIC", new_topic(server)))
    surfaces = set()
    for where, surface in SETTING.items():
        name = own("subscriptions")
        settings = {"topic": new_topic(server)} | asked
        create = surface.create
        if answered(
            where, sentence, lambda c=create, n=name, s=settings: c(server, n, s, tmp_path)
        ):
            surfaces.add(where)
        assert server.broker.hard.catalog.has_subscription(name) == (sentence is None), where
    assert {"grpc", "python", "google", "short", "labels", "file"} <= surfaces


CHANGES = [
    ("{}", said, answer)
    for said, answer in NEW
    if "fanlog-ordering" not in said
    and "fanlog-dead-letter" not in said
    and "fanlog-assignment" not in said
    and "fanlog-slots" not in said
    and "fanlog-fairness" not in said
]
CHANGES += [
    row
    for section in ("Consumers with key slots", "Turns of tenants")
    for row in options_page.rows(section, 1)
    if row[1].startswith("`{")
]


@pytest.mark.parametrize(("labels", "said", "answer"), CHANGES)
def test_settings_of_a_subscription_that_is_there(server, labels, said, answer):
    sentence = options_page.sentence(answer)
    asked = json.loads(said.strip("`").replace("TOPIC", new_topic(server)))
    asked.pop("enable_message_ordering", None)
    surfaces = set()
    for where, surface in SETTING.items():
        name = new_subscription(server, new_topic(server), labels=json.loads(labels.strip("`")))
        update = surface.update
        if answered(where, sentence, lambda u=update, n=name: u(server, n, asked)):
            surfaces.add(where)
    assert {"grpc", "python", "google", "short"} <= surfaces


ORDERED, ASKED = (options_page.rows("Order of a topic", table) for table in (0, 1))


def labels_of(label):
    return {} if label == "(none)" else {"fanlog-ordering": label.strip("`")}


@pytest.mark.parametrize(("label", "said", "answer"), ORDERED)
def test_messages_to_topics_with_an_order(server, label, said, answer):
    sentence = options_page.sentence(answer)
    asked = json.loads(said.strip("`"))
    surfaces = set()
    for publish in asking.PUBLISHING:
        topic = new_topic(server, labels=labels_of(label))
        given = (server, topic, asked.get("attributes", {}), asked.get("ordering_key", ""))
        if answered(publish.__name__, sentence, lambda p=publish, g=given: p(*g)):
            surfaces.add(publish.__name__)
    assert {"by_grpc", "by_google_form", "by_path_form", "by_short_form"} <= surfaces
    assert {"by_command", "by_client"} <= surfaces


@pytest.mark.parametrize(("label", "asked", "answer"), ASKED)
def test_what_is_asked_of_topics_with_an_order(server, tmp_path, label, asked, answer):
    sentence = options_page.sentence(answer)
    if asked == "made":
        made = {
            where: lambda s=surface: s.create(server, own("topics"), labels_of(label), tmp_path)
            for where, surface in TOPICS.items()
        }
    elif asked.startswith("changed to "):
        wanted = labels_of(asked.removeprefix("changed to "))
        made = {
            where: lambda s=surface: s.update(
                server, new_topic(server, labels=labels_of(label)), wanted
            )
            for where, surface in TOPICS.items()
        }
    else:
        copies = new_topic(server, labels=labels_of(label))
        copying = {
            "forwards": {"push_config": {"push_endpoint": f"topic:{copies}"}},
            "dead letters": {"dead_letter_policy": {"dead_letter_topic": copies}},
        }
        settings = {"topic": new_topic(server)} | copying[asked]
        made = {
            where: lambda s=surface: s.create(server, own("subscriptions"), settings, tmp_path)
            for where, surface in SETTING.items()
        }
    surfaces = {where for where, ask in made.items() if answered(where, sentence, ask)}
    assert {"grpc", "python", "google", "short", "labels"} <= surfaces


RATES = options_page.rows("Rates of a topic")


@pytest.mark.parametrize(("said", "answer"), RATES, ids=[row[0] for row in RATES])
def test_rates_of_topics(server, tmp_path, said, answer):
    sentence, labels = options_page.sentence(answer), json.loads(said.strip("`"))
    made, changed = set(), set()
    for where, surface in TOPICS.items():
        new, old, create, update = own("topics"), new_topic(server), surface.create, surface.update
        if answered(where, sentence, lambda c=create, n=new: c(server, n, labels, tmp_path)):
            made.add(where)
        assert (server.broker.hard.catalog.find_topic(new) is None) == (sentence is not None), where
        if answered(where, sentence, lambda u=update, n=old: u(server, n, labels)):
            changed.add(where)
        found = dict(server.broker.hard.catalog.topic(old).labels)
        assert found == (labels if where in changed and not sentence else {}), where
    assert made == set(TOPICS)
    assert changed == set(TOPICS) - {"file"}


NACKS = options_page.rows("Kinds of nacks")


@pytest.mark.parametrize(("said", "policy", "answer"), NACKS, ids=[row[0] for row in NACKS])
def test_kinds_of_nacks(server, said, policy, answer):
    sentence, words = options_page.sentence(answer), options_page.words(said)
    letters = new_topic(server)
    surfaces = set()
    for nack in NACKING:
        topic = new_topic(server)
        fields = {"dead_letter_policy": {"dead_letter_topic": letters}} if policy == "yes" else {}
        name = new_subscription(server, topic, **fields)
        server.publish(topic, b"x")
        [held] = server.pull(name)
        where = nack.__name__
        if answered(where, sentence, lambda n=nack, s=name, h=held: n(server, s, h.ack_id, words)):
            surfaces.add(where)
            if sentence is not None:
                assert server.pull(name) == [], f"{where} did something"
    assert {"by_unary", "by_stream", "by_google_form", "by_path_form"} <= surfaces


SCHEDULES = options_page.rows("Schedules")
PLAIN = {"cron": "0 7 * * *", "data": "go"}
ORDER_WORDS = {"KEYED": "key", "NONE": "none", "PUBLISHER": "publisher", "TOTAL": "total"}


def topic_named(server, word):
    if word == "SCHEMA":
        name = own("schemas")
        server.run(server.broker.schemas.create(name, "AVRO", '"string"'))
        return new_topic(server, schema_settings={"schema": name, "encoding": "JSON"})
    labels = {"fanlog-ordering": ORDER_WORDS[word]} if word in ORDER_WORDS else {}
    topic = new_topic(server, labels=labels)
    new_subscription(server, topic)
    return topic


@pytest.mark.parametrize(("row", "answer"), SCHEDULES, ids=[row[0] for row in SCHEDULES])
def test_schedules(server, tmp_path, row, answer):
    sentence, text = options_page.sentence(answer), row.strip("`")
    for word in set(re.findall(r"\b(?:TOPIC|KEYED|NONE|PUBLISHER|TOTAL|SCHEMA)\b", text)):
        text = text.replace(word, topic_named(server, word))
    text = text.replace("ELSEWHERE", server.publish(new_topic(server), b"x")[0])
    asked = json.loads(text)
    given = {"topic": topic_named(server, "")} | PLAIN | asked
    surfaces = set()
    for where, surface in SCHEDULING.items():
        made, changed = own("schedules"), own("schedules")
        surface.create(server, changed, {"topic": topic_named(server, "")} | PLAIN, tmp_path)
        create, update = surface.create, surface.update
        fields = {field: given[field] for field in asked}
        if answered(where, sentence, lambda c=create, n=made: c(server, n, given, tmp_path)):
            surfaces.add(where)
            assert (server.broker.hard.schedules.find(made) is None) == (sentence is not None)
        answered(where, sentence, lambda u=update, n=changed, f=fields: u(server, n, f))
    assert {"grpc", "python"} <= surfaces
    assert "rest" in surfaces or asked == {"missed": 9}
