"""The tables of `docs/reference/options.md` about what messages ask for: every row is tried."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument
from google.protobuf import json_format
from google.pubsub_v1.types import Subscription

from fanlog import times
from server.conftest import PROJECT, unique

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"


def rows_of(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its head."""
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def said(answer: str) -> str | None:
    """The sentence of a refusal; None for done."""
    if answer == "done":
        return None
    [sentence] = re.findall(r"^refused: `(.+)`$", answer)
    return str(sentence)


def abroad(server) -> str:
    return server.topic(name=f"projects/abroad/topics/{unique('topic')}")


@pytest.fixture
def server(still_server):
    return still_server


@pytest.mark.parametrize("row", rows_of("What messages ask for"), ids=lambda row: row[0])
def test_attributes(server, row):
    text, key, answer = row
    topic, _ = server.topic_and_subscription()

    def time(found: re.Match[str]) -> str:
        return times.of_ns(int((server.clock.now() + float(found[1])) * 1e9))

    ids = {
        "EARLIER": server.publish(topic, b"earlier")[0],
        "ELSEWHERE": server.publish(server.topic(), b"elsewhere")[0],
        "ABROAD": server.publish(abroad(server), b"abroad")[0],
    }
    ids["NEXT"] = str(int(ids["EARLIER"]) + 1)
    for name, message_id in ids.items():
        text = text.replace(name, message_id)
    pairs = re.findall(r"`([a-z-]+): ([^`]*)`", text)
    assert pairs
    attributes = {name: re.sub(r"NOW([+-]\d+)", time, value) for name, value in pairs}
    sentence = said(answer)
    if sentence is None:
        server.publish(topic, b"x", key="k" if key == "yes" else "", **attributes)
        return
    with pytest.raises(InvalidArgument) as refused:
        server.publish(topic, b"x", key="k" if key == "yes" else "", **attributes)
    assert sentence in refused.value.message
    assert "messages[0]" in refused.value.message


@pytest.mark.parametrize(
    "row",
    [
        *rows_of("Time-to-live and dependencies of a subscription"),
        *rows_of("Backlog policies"),
    ],
    ids=lambda row: row[0][:100],
)
def test_settings(server, row):
    settings = json.loads(row[0].strip("`").replace("TOPIC", server.topic()))
    settings |= {
        "name": f"projects/{PROJECT}/subscriptions/{unique('options')}",
        "topic": server.topic(),
    }
    request = json_format.ParseDict(settings, Subscription.pb(Subscription()))
    sentence = said(row[1])
    if sentence is None:
        server.subscriber.create_subscription(request=Subscription(request), retry=None)
        return
    with pytest.raises(InvalidArgument) as refused:
        server.subscriber.create_subscription(request=Subscription(request), retry=None)
    assert sentence in refused.value.message


@pytest.mark.parametrize("row", rows_of("Numbers of publishers"), ids=lambda row: row[2][:70])
def test_numbers(server, row):
    labels, before, message = (cell.strip("`") for cell in row[:3])
    answer = row[3]
    sentence = said(answer) if answer != "known" else None
    if message == "made":
        with pytest.raises(InvalidArgument) as refused:
            server.topic(labels=json.loads(labels))
        assert sentence in refused.value.message
        return
    topic = server.topic(labels=json.loads(labels))
    known = set()
    for one in before.split() if before != "(none)" else ():
        epoch, _, number = one.removeprefix("e").rpartition(":")
        more = {"fanlog-publisher-epoch": epoch} if epoch else {}
        attributes = {"fanlog-publisher": "p", "fanlog-sequence": number, **more}
        known.update(server.publish(topic, b"x", **attributes))
    attributes = {"fanlog-publisher": "p", **json.loads(message)}
    if sentence is None:
        [message_id] = server.publish(topic, b"x", **attributes)
        assert (message_id in known) == (answer == "known")
        return
    with pytest.raises((InvalidArgument, FailedPrecondition)) as refused:
        server.publish(topic, b"x", **attributes)
    assert sentence in refused.value.message
    assert "messages[0]" in refused.value.message
