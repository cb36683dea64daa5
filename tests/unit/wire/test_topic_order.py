"""Messages get the key that their topic's order gives them, and stay what they are besides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanlog.errors import InvalidArgument
from fanlog.log.seal import Seal
from fanlog.model.attributes import TOTAL_KEY
from fanlog.wire import types
from fanlog.wire.publish import build_body, key_hash
from fanlog.wire.topic_order import keyed

P, Q = {"fanlog-publisher": "p"}, {"fanlog-publisher": "q"}
LARGE = b"x" * 300


def messages(body):
    return list(types.PublishRequest.FromString(body.content).messages)


def body(*given):
    return build_body((data, attributes, key) for data, attributes, key in given)


def check_whole(made):
    """Offsets, hashes and bytes say the same: a body built anew of its messages is the same."""
    again = build_body((m.data, dict(m.attributes), m.ordering_key) for m in messages(made))
    assert (made.content, list(made.starts)) == (again.content, list(again.starts))
    assert list(made.key_hashes) == list(again.key_hashes)


def test_by_key_nothing_is_looked_at():
    given = body((b"1", {}, "k"))
    assert keyed(given, "key") is given


def test_none_takes_messages_without_keys_alone():
    given = body((b"1", {}, ""))
    assert keyed(given, "none") is given
    with pytest.raises(
        InvalidArgument, match=r"messages\[1\].ordering_key: the topic has no order"
    ):
        keyed(body((b"1", {}, ""), (b"2", {}, "k")), "none")


@pytest.mark.parametrize("data", [b"1", b"y" * 107, b"y" * 110, LARGE, b"z" * 20_000])
def test_total_appends_the_key(data):
    made = keyed(body((data, {}, ""), (b"", {"a": "ä"}, ""), (data, {"b": ""}, "")), "total")
    check_whole(made)
    assert [m.data for m in messages(made)] == [data, b"", data]
    assert {m.ordering_key for m in messages(made)} == {TOTAL_KEY}
    assert set(made.key_hashes) == {key_hash(TOTAL_KEY)}


def test_total_takes_its_own_key_and_no_other():
    made = keyed(body((b"1", {}, TOTAL_KEY), (b"2", {}, "")), "total")
    check_whole(made)
    assert {m.ordering_key for m in messages(made)} == {TOTAL_KEY}
    with pytest.raises(InvalidArgument, match=r"messages\[1\].ordering_key: 'k', but the topic"):
        keyed(body((b"1", {}, ""), (b"2", {}, "k")), "total")


def test_the_publisher_is_the_key():
    made = keyed(body((b"1", P, ""), (LARGE, Q, "q"), (b"3", P, "")), "publisher")
    check_whole(made)
    assert [m.ordering_key for m in messages(made)] == ["p", "q", "p"]
    assert made.key_hashes == [key_hash("p"), key_hash("q"), key_hash("p")]
    with pytest.raises(InvalidArgument, match=r"messages\[1\].attributes: .* no fanlog-publisher"):
        keyed(body((b"1", P, ""), (b"2", {"a": "b"}, "")), "publisher")
    with pytest.raises(InvalidArgument, match=r"messages\[0\].ordering_key: 'q', but the topic"):
        keyed(body((b"1", P, "q")), "publisher")


@pytest.mark.parametrize("ordering", ["total", "publisher"])
def test_statements_about_the_body_stay(ordering):
    seal = Seal(is_copy=True, addressee=7)
    given = replace(body((b"1", P, "")), attributes={"x": "y"}, seal=seal)
    made = keyed(given, ordering)
    assert (made.attributes, made.seal) == ({"x": "y"}, seal)
