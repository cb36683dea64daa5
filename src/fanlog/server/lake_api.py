"""fanlog.v1.Lake, for any surface."""

from __future__ import annotations

from typing import Any

from fanlog.broker.broker import Broker
from fanlog.server.calls import Unary, parsed
from fanlog.v1 import lake_pb2 as pb

LAKE = "fanlog.v1.Lake"

#: Ranges of offsets that are named of a partition.
RANGES_MAX = 100


def methods(broker: Broker) -> dict[str, Unary]:
    """Every method of the service: bytes to bytes."""
    api = LakeApi(broker)
    return {
        "GetLake": parsed(pb.GetLakeRequest, api.get_lake),
        "AcceptLoss": parsed(pb.AcceptLossRequest, api.accept_loss),
    }


class LakeApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def get_lake(self, _: Any) -> Any:
        tiers = self._broker.tiers
        return pb.LakeStatus(
            uri=tiers.lake_uri,
            id=tiers.lake_id,
            alarm=tiers.alarm,
            archived_sequence=tiers.archived_sequence,
            sequence=self._broker.ledger.committed_sequence,
        )

    async def accept_loss(self, request: Any) -> Any:
        found = await self._broker.accept_loss(confirm=request.confirm)
        answer = pb.AcceptLossResponse(
            accepted=found.is_accepted,
            known_lake_id=found.known_lake_id,
            lake_id=found.lake_id,
            sequence=found.sequence,
            messages=sum(loss.messages for loss in found.losses),
            leaving=sum(loss.leaving for loss in found.losses),
        )
        for loss in found.losses:
            answer.losses.add(
                topic=loss.topic,
                partition=loss.partition,
                messages=loss.messages,
                leaving=loss.leaving,
                start=loss.start,
                ranges=[
                    pb.LostRange(start=start, end=end) for start, end in loss.ranges[:RANGES_MAX]
                ],
            )
        return answer
