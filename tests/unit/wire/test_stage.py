"""Stage requests: the walk over their bytes says what protobuf says, and rows are checked."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.v1 import sink_pb2 as pb
from fanlog.v1.message_pb2 import Message
from fanlog.wire import types
from fanlog.wire.stage import parse_rows, split_request

TOPIC = "projects/p/topics/ttt"

keys = st.builds(
    pb.StageKey,
    query=st.text(max_size=5),
    epoch=st.integers(-1, 2**62),
    partition=st.integers(-1, 300),
    attempt=st.text(max_size=5),
)
messages = st.builds(
    Message,
    data=st.binary(max_size=300),
    attributes=st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
    ordering_key=st.text(max_size=3),
)
rows = st.builds(
    pb.StagedRows,
    topic=st.sampled_from([TOPIC, "rubbish"]),
    messages=st.lists(messages, max_size=4),
)
requests = st.builds(pb.StageRequest, key=st.none() | keys, rows=st.lists(rows, max_size=3))


@given(requests)
def test_the_walk_says_what_protobuf_says(request):
    key, parts = split_request(request.SerializeToString())
    assert (key is not None) == request.HasField("key")
    assert key is None or key == request.key
    assert [pb.StagedRows.FromString(part) for part in parts] == list(request.rows)


@given(st.binary(max_size=40) | requests.map(lambda one: one.SerializeToString()[:-1]))
def test_rubbish_is_refused_or_understood_and_nothing_else(raw):
    with suppress(InvalidArgument, Unimplemented):
        _, parts = split_request(raw)
        for part in parts:
            parse_rows(part, 0, lambda number, reason: None)


@given(rows)
def test_every_row_is_published_or_refused(one):
    refused: list[int] = []
    found, count = parse_rows(
        one.SerializeToString(), 10, lambda number, reason: refused.append(number)
    )
    assert count == len(one.messages)
    taken = [number for rows in found for number in rows.numbers]
    assert sorted(taken + refused) == list(range(10, 10 + count))
    bodies = [types.PublishRequest.FromString(rows.body.content).messages for rows in found]
    data = [message.data for messages in bodies for message in messages]
    assert data == [one.messages[number - 10].data for number in taken]


def test_a_key_in_two_pieces_is_for_protobuf_to_join():
    one = pb.StageRequest(key=pb.StageKey(query="q")).SerializeToString()
    two = pb.StageRequest(key=pb.StageKey(epoch=3)).SerializeToString()
    key, parts = split_request(one + two)
    assert (key.query, key.epoch, parts) == ("q", 3, [])


def test_lengths_that_are_longer_than_they_must_be():
    raw = b"\x12\x84\x80\x80\x80\x00" + b"\x0a\x02ab"
    _, [part] = split_request(raw)
    assert pb.StagedRows.FromString(part).topic == "ab"


def test_rows_that_are_no_rows():
    with pytest.raises(InvalidArgument):
        parse_rows(b"\xff\xff", 0, lambda number, reason: None)
