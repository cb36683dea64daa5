"""The table of states: complete, and the only way a stream moves."""

from __future__ import annotations

from itertools import product

import pytest

from fanlog.http2.codes import ErrorCode, StreamFault
from fanlog.http2.states import TABLE, Step, StreamState
from fanlog.http2.stream import Http2Stream


@pytest.mark.parametrize(("state", "step"), [*product(StreamState, Step)])
def test_a_stream_moves_as_the_table_says(state, step):
    stream = Http2Stream(1, 0, 0)
    stream.state = state
    after = TABLE.get((state, step))
    if after is not None:
        stream.step(step)
        assert stream.state is after
    elif step.name.startswith("GET"):
        with pytest.raises(StreamFault) as caught:
            stream.step(step)
        closed = state in (StreamState.HALF_CLOSED_REMOTE, StreamState.CLOSED)
        assert caught.value.code == (
            ErrorCode.STREAM_CLOSED if closed else ErrorCode.PROTOCOL_ERROR
        )
    else:
        with pytest.raises(AssertionError):
            stream.step(step)


def test_an_end_ends_its_side():
    for (state, step), after in TABLE.items():
        if step.name.endswith("RESET"):
            assert after is StreamState.CLOSED
        elif step.name.endswith("_END"):
            remote = step.name.startswith("GET")
            other = StreamState.HALF_CLOSED_LOCAL if remote else StreamState.HALF_CLOSED_REMOTE
            half = StreamState.HALF_CLOSED_REMOTE if remote else StreamState.HALF_CLOSED_LOCAL
            assert after is (StreamState.CLOSED if state is other else half)
        elif state is not StreamState.IDLE:
            assert after is state
