"""The table of `docs/reference/options.md` about schedules: every row is tried."""

from __future__ import annotations

import json
import re

import pytest

from fanlog.client import CallFailed, Client
from fanlog.client.schedules import ScheduleClient
from fanlog.v1.schedules_pb2 import Schedule
from server import options_page
from server.conftest import PROJECT, unique

PARENT = f"projects/{PROJECT}"
PLAIN = {"cron": "0 7 * * *", "data": "go"}
ROWS = options_page.rows("Schedules")


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture
def asking(server):
    with Client(server.endpoint) as client:
        yield ScheduleClient(client)


def topic_named(server, word):
    if word == "SCHEMA":
        name = f"{PARENT}/schemas/{unique('text')}"
        server.run(server.broker.schemas.create(name, "AVRO", '"string"'))
        return server.topic(schema_settings={"schema": name, "encoding": "JSON"})
    order = {"KEYED": "key", "NONE": "none", "PUBLISHER": "publisher", "TOTAL": "total"}
    topic = server.topic(**({"labels": {"fanlog-ordering": order[word]}} if word in order else {}))
    server.subscription(topic)
    return topic


@pytest.mark.parametrize(("row", "answer"), ROWS, ids=[row[0] for row in ROWS])
def test_the_reference_is_right(server, asking, row, answer):
    sentence, text = options_page.sentence(answer), row.strip("`")
    for word in set(re.findall(r"\b(?:TOPIC|KEYED|NONE|PUBLISHER|TOTAL|SCHEMA)\b", text)):
        text = text.replace(word, topic_named(server, word))
    text = text.replace("ELSEWHERE", server.publish(topic_named(server, ""), b"x")[0])
    asked = json.loads(text)
    given = {"topic": topic_named(server, "")} | PLAIN | asked
    given["data"] = given["data"].encode()
    made = Schedule(name=f"{PARENT}/schedules/{unique('made')}", **given)
    changed = f"{PARENT}/schedules/{unique('changed')}"
    asking.create(
        Schedule(name=changed, topic=topic_named(server, ""), cron=PLAIN["cron"], data=b"go")
    )

    def change():
        fields = {field: given[field] for field in asked}
        asking.update(Schedule(name=changed, **fields), list(asked))

    if sentence is None:
        asking.create(made)
        change()
        # What is allowed can be published, too.
        assert asking.run(made.name)
        assert asking.run(changed)
        return
    for attempt in (lambda: asking.create(made), change):
        with pytest.raises(CallFailed) as refused:
            attempt()
        assert sentence in str(refused.value)
        assert "messages[" not in str(refused.value)
