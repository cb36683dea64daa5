"""The record of what the backlog policy of a subscription dropped in one partition."""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.core.drops import Drops
from fanlog.core.records.codec import Stored, json_of, numbers, record
from fanlog.model.resources import PartitionId


@record("d", key=numbers(">QI"), value=json_of(Drops))
@dataclass(frozen=True, slots=True)
class DropRecord(Stored):
    """What was dropped of a share; or of the one that a snapshot was made of, until then."""

    owner: int
    partition: PartitionId
    drops: Drops | None
