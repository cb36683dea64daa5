"""Names that nothing can have, of a size that only a request has."""

from __future__ import annotations

import grpc
import pytest

from access.conftest import PROJECT, Guarded
from fanlog.wire import types


async def test_a_denial_of_a_very_long_name_is_short(guarded: Guarded):
    token = await guarded.token("ci")
    name = f"{PROJECT}/topics/{'x' * 500_000}"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await guarded.call(
            *("google.pubsub.v1.Publisher/GetTopic", types.GetTopicRequest(topic=name)),
            *(types.Topic, token),
        )
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert len(str(refused.value.details())) < 1_000
