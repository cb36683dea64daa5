"""Payloads, and what new messages ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fanlog.errors import InvalidArgument
from fanlog.in_process.message import cut_reason, reason_of
from fanlog.in_process.new_message import NewMessage, publish_of
from fanlog.in_process.payloads import data_of, payload_of
from fanlog.limits import NACK_REASON_BYTES_MAX
from fanlog.wire import types

VALUES: list[Any] = [
    *(None, True, 0, 1.5, "", "two chairs", [], {}, [1, [2]], {"a": {"b": [None]}}),
    {"big": 2**63 - 1},
]
ODD: list[Any] = [
    *(float("nan"), [float("inf")], {"a": [None, {"b": float("-inf")}]}, {1: 2}, {1, 2}),
    *(object(), datetime(2026, 1, 1, tzinfo=UTC), 2**64, "\ud800", lambda: None),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_payload_comes_out_as_it_went_in(value):
    assert payload_of(data_of(value), "1") == value


@pytest.mark.parametrize("value", ODD, ids=lambda value: ascii(value)[:20])
def test_what_json_cannot_say_is_refused_with_a_sentence(value):
    with pytest.raises(InvalidArgument, match="payload: "):
        data_of(value)


def test_a_list_that_contains_itself_is_refused():
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidArgument, match="payload: "):
        data_of(value)


def test_bytes_are_data_and_no_payload():
    assert data_of(b"\xff") == b"\xff"
    with pytest.raises(InvalidArgument, match="message 7: its data is not JSON"):
        payload_of(b"\xff", "7")


def attributes_of(new: NewMessage) -> dict[str, str]:
    field = new.field_bytes()
    [message] = types.PublishRequest.FromString(field).messages
    return dict(message.attributes)


def test_arguments_are_attributes_of_the_api():
    new = NewMessage(
        1,
        priority=3,
        delay=0.1,
        ttl=60,
        depends_on=["1000000000001", "1000000000002"],
        dedup_id="d",
        attributes={"region": "eu"},
    )
    assert attributes_of(new) == {
        "fanlog-priority": "3",
        "fanlog-delay": "0.100",
        "fanlog-ttl": "60.000",
        "fanlog-depends-on": "1000000000001,1000000000002",
        "fanlog-dedup-id": "d",
        "region": "eu",
    }
    at = NewMessage(1, deliver_at=datetime(2026, 1, 31, 12, tzinfo=UTC))
    assert attributes_of(at) == {"fanlog-deliver-at": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"delay": -1}, "delay: "),
        ({"delay": float("nan")}, "delay: "),
        ({"delay": "soon"}, "delay: "),
        ({"deliver_at": datetime(2026, 1, 1)}, "deliver_at: "),  # noqa: DTZ001
        ({"key": 7}, "key: "),
        ({"attributes": {"a": 1}}, "attributes: "),
        ({"delay": 1, "attributes": {"fanlog-delay": "2"}}, "fanlog-delay is given"),
        ({"priority": 10}, "fanlog-priority is '10'"),
        ({"priority": 3, "key": "anna"}, "leave one of them out"),
        ({"attributes": {"fanlog-dely": "2"}}, "did you mean 'fanlog-delay'"),
        ({"ttl": 0}, "fanlog-ttl"),
        ({"key": "\ud800"}, "surrogate"),
    ],
)
def test_what_a_message_cannot_ask_for_is_refused(arguments, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        publish_of("p", "orders", [NewMessage({}, **arguments)], 10_000)


def test_the_limits_are_those_of_a_request():
    with pytest.raises(InvalidArgument, match="1 to 1000 are allowed"):
        publish_of("p", "orders", [], 10_000)
    with pytest.raises(InvalidArgument, match="1 to 1000 are allowed"):
        publish_of("p", "orders", [NewMessage(1)] * 1_001, 10_000)
    with pytest.raises(InvalidArgument, match="message_bytes_max"):
        publish_of("p", "orders", [NewMessage("x" * 100)], 50)
    with pytest.raises(InvalidArgument, match="topic: "):
        publish_of("p", "no/topic", [NewMessage(1)], 50)


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_reasons_are_bounded():
    assert reason_of(ValueError("no such order")) == "ValueError: no such order"
    assert reason_of(KeyError()) == "KeyError"
    assert reason_of(Silent()) == "Silent: its text cannot be had"
    assert len(reason_of(ValueError("ü" * 10_000)).encode()) <= NACK_REASON_BYTES_MAX
    assert cut_reason("\ud800") == "?"
