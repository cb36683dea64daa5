"""Attributes read as terms; most refusals are in the tables of `docs/reference/options.md`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fanlog.errors import InvalidArgument
from fanlog.model import term_attributes
from fanlog.model.schedules import Schedule
from fanlog.model.terms import TermKind, Terms


def read(*attributes: dict[str, str]) -> Terms | None:
    return term_attributes.terms_of([(one, "") for one in attributes])


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T01:00:01+01:00", 1_000),
        # Rounded up to milliseconds: never early.
        ("1970-01-01T00:00:01.0001Z", 1_001),
        ("1970-01-01T00:00:01.000000001Z", 1_001),
        ("1970-01-01T00:00:01.000000Z", 1_000),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_times(text, milliseconds):
    assert read({"fanlog-deliver-at": text}) == Terms.of([(0, TermKind.DELIVER_AT, milliseconds)])


def test_nothing_is_asked_for_by_zeros():
    assert read({"fanlog-delay": "0"}, {"fanlog-priority": "0"}, {"colour": "red"}) is None


def test_names_in_bytes():
    assert not term_attributes.names_in(b"fanlog-dedup-id")
    assert term_attributes.names_in(b"...fanlog-ttl...")


def test_stored_messages_with_a_mistake_ask_for_nothing():
    found = term_attributes.stored_terms_of(
        [({"fanlog-ttl": "soon"}, ""), ({"fanlog-ttl": "1"}, "")]
    )
    assert found == Terms.of([(1, TermKind.TTL, 1_000)])


def test_when_a_message_expires():
    def expires(attributes):
        return term_attributes.expires_ns(attributes, "", 5_000_000_000)

    assert expires({}) is None
    assert expires({"fanlog-ttl": "2"}) == 7_000_000_000
    assert expires({"fanlog-ttl": "2", "fanlog-delay": "1.5"}) == 8_500_000_000
    assert expires({"fanlog-ttl": "soon"}) is None


def test_attributes_for_all():
    made = term_attributes.attributes_for(
        delay_s=1.5, deliver_at=datetime(2030, 1, 31, 12, tzinfo=UTC), ttl_s=60, priority=0
    )
    assert made == {
        "fanlog-delay": "1.5",
        "fanlog-deliver-at": "2030-01-31T12:00:00.000000Z",
        "fanlog-ttl": "60",
        "fanlog-priority": "0",
    }


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"fanlog-delay": "soon"}, "attributes: fanlog-delay is 'soon'"),
        ({"fanlog-deliver-at": "2030-01-01T00:00:00Z"}, "one time for all ticks"),
    ],
)
def test_schedules_refuse_what_no_tick_can_have(attributes, says):
    made = Schedule(
        name="projects/p/schedules/daily",
        topic="projects/p/topics/orders",
        cron="0 7 * * *",
        time_zone="UTC",
        data=b"x",
        attributes=attributes,
    )
    with pytest.raises(InvalidArgument, match=says):
        made.check()
