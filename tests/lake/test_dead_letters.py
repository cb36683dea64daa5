"""Dead letters, from the archive's table to one of their own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from fanlog.lake.archive import commit_archive
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.dead_letters import LettersCollected, collect_letters, letters_of
from fanlog.lake.files import write_rows
from fanlog.lake.location import Location
from fanlog.lake.tables import DEAD_LETTERS, MESSAGES, ensure_lake
from fanlog.model import attributes

NOW = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
LETTER = {
    "CloudPubSubDeadLetterSourceDeliveryCount": "5",
    "CloudPubSubDeadLetterSourceSubscription": "billing",
    "CloudPubSubDeadLetterSourceSubscriptionProject": "p",
    "CloudPubSubDeadLetterSourceTopicPublishTime": "2026-01-02T03:04:05.600000123Z",
    "fanlog-dead-letter-reason": "no such account",
    "fanlog-source-topic": "projects/p/topics/orders",
    "fanlog-source-message-id": "1000000000007",
    "own": "x",
}


def messages(
    *attributes: dict[str, str], sequence: int = 1, first: int = 0, seal: str | None = "letter"
) -> pa.Table:
    rows = [
        {
            "topic": "projects/p/topics/dead",
            "partition": 7,
            "offset": offset,
            "message_id": str(offset),
            "publish_time": NOW,
            "ordering_key": "",
            "attributes": list(some.items()),
            "data": b"x",
            "sequence": sequence,
            "seal": seal,
        }
        for offset, some in enumerate(attributes, first)
    ]
    schema = pa.schema([field for field in MESSAGES.schema if field.name != "date"])
    return pa.Table.from_pylist(rows, schema=schema)


def test_what_a_letter_says_becomes_columns():
    [row] = letters_of(messages({"own": "y"}, LETTER)).to_pylist()
    assert dict(row.pop("attributes")) == LETTER
    assert row == {
        "topic": "projects/p/topics/dead",
        "partition": 7,
        "offset": 1,
        "message_id": "1",
        "publish_time": NOW,
        "ordering_key": "",
        "data": b"x",
        "subscription": "projects/p/subscriptions/billing",
        "original_topic": "projects/p/topics/orders",
        "original_message_id": "1000000000007",
        "original_publish_time": NOW,
        "delivery_attempts": 5,
        "reason": "no such account",
        "sequence": 1,
    }


def test_it_is_what_the_broker_says():
    assert set(attributes.DEAD_LETTER) == LETTER.keys() - {"own"}


@pytest.mark.parametrize(
    ("time", "attempts"),
    [("yesterday", "many"), ("2026-13-02T03:04:05Z", "-1"), ("", ""), (None, None)],
)
def test_anybody_may_publish_such_attributes(time: Any, attempts: Any):
    said = dict(LETTER)
    for name, value in (
        ("CloudPubSubDeadLetterSourceTopicPublishTime", time),
        ("CloudPubSubDeadLetterSourceDeliveryCount", attempts),
        ("fanlog-dead-letter-reason", None),
    ):
        said.pop(name)
        if value is not None:
            said[name] = value
    [row] = letters_of(messages(said)).to_pylist()
    assert row["original_publish_time"] is None
    assert (row["delivery_attempts"], row["reason"]) == (0, "")


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-02T03:04:05.600Z",
        "2026-01-02T03:04:05.600+00:00",
        "2026-01-02T08:34:05.600000+05:30",
        "2026-01-02t03:04:05.600000123z",
    ],
)
def test_times_in_every_form_of_utc(time: str):
    said = LETTER | {"CloudPubSubDeadLetterSourceTopicPublishTime": time}
    wrong = LETTER | {"CloudPubSubDeadLetterSourceTopicPublishTime": "2026-13-02T03:04:05Z"}
    rows = letters_of(messages(said, wrong)).to_pylist()
    assert [row["original_publish_time"] for row in rows] == [NOW, None]


@pytest.mark.parametrize("seal", ["letter", "letter copy", "letter hops=2", None])
def test_what_the_broker_sealed_as_letters_and_what_is_older_than_seals(seal):
    assert letters_of(messages(LETTER, seal=seal)).num_rows == 1


@pytest.mark.parametrize("seal", ["", "copy to=7", "to=7", "hops=1"])
def test_what_only_looks_like_a_letter(seal):
    assert letters_of(messages(LETTER, seal=seal)).num_rows == 0


@pytest.fixture
def lake(tmp_path):
    location = Location(str(tmp_path / "lake"))
    ensure_lake(location)
    return location


def archive(lake: Location, after: int, to: int, *attributes: dict[str, str]) -> None:
    rows = messages(*attributes, sequence=to, first=100 * to)
    files = write_rows(lake, MESSAGES, rows, attempt=f"a{to}")
    commit_archive(lake, "log", files, after_sequence=after, to_sequence=to)


def letters(lake: Location) -> list[int]:
    found = DeltaTable(f"{lake.uri}/{DEAD_LETTERS.name}").to_pyarrow_table()
    return sorted(found["offset"].to_pylist())


def test_each_letter_is_collected_once(lake):
    assert collect_letters(lake, "log") == LettersCollected(0, 0)
    archive(lake, 0, 3, {}, LETTER)
    assert collect_letters(lake, "log") == LettersCollected(1, 3)
    assert collect_letters(lake, "log") == LettersCollected(0, 3)
    archive(lake, 3, 5, {})
    assert collect_letters(lake, "log", after=3) == LettersCollected(0, 5)
    archive(lake, 5, 6, LETTER, LETTER)
    # One that forgot everything begins where the table ends.
    assert collect_letters(lake, "log") == LettersCollected(2, 6)
    assert letters(lake) == [301, 600, 601]


def test_an_older_lake_is_looked_through_again(lake):
    """What was looked at was in another one."""
    archive(lake, 0, 1, LETTER)
    assert collect_letters(lake, "log", after=9) == LettersCollected(1, 1)
    archive(lake, 1, 2, LETTER)
    assert collect_letters(lake, "log", after=9) == LettersCollected(1, 2)


def test_that_nothing_was_found_can_be_noted(lake):
    archive(lake, 0, 3, {})
    assert collect_letters(lake, "log", is_noted=True) == LettersCollected(0, 3)
    opened = DeltaTable(f"{lake.uri}/{DEAD_LETTERS.name}")
    assert opened.transaction_version("log") == 3


def test_of_two_at_once_one_loses(lake, monkeypatch):
    from fanlog.lake import dead_letters

    archive(lake, 0, 3, LETTER)
    written = dead_letters._write_letters

    def slowly(*arguments: Any) -> Any:
        found = written(*arguments)
        with monkeypatch.context() as patched:
            patched.setattr(dead_letters, "_write_letters", written)
            archive(lake, 3, 4, {})
            collect_letters(lake, "log")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(dead_letters, "_write_letters", slowly)
        with pytest.raises(CommitLost):
            collect_letters(lake, "log")
    assert letters(lake) == [300]
