"""One ordering key as the ordered backlog keeps it, and messages that were recalled. Soft state."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.model.resources import Offset


class Key:
    """One ordering key that has messages outstanding or waiting."""

    __slots__ = ("acked", "is_restored", "outstanding", "owner", "rescan_from", "waiting")

    def __init__(self) -> None:
        #: Leased and not hard-acknowledged, in order.
        self.outstanding: deque[Offset] = deque()
        #: Those of `outstanding` that were acknowledged ahead of an earlier one.
        self.acked: set[Offset] = set()
        #: Who holds the outstanding ones; None also for a lease whose consumer is gone.
        self.owner: Credit | None = None
        #: Met and not delivered, in order; all of them come after `outstanding`.
        self.waiting: deque[Offset] = deque()
        #: From here on messages of the key were met but not remembered.
        self.rescan_from: Offset | None = None
        #: All that is outstanding was leased before the restart, and none of it failed since.
        self.is_restored = False


@dataclass(frozen=True, slots=True)
class Recall:
    """Recalled messages: the first one of each key, all of them, and those without a key."""

    heads: Mapping[int, Offset]
    offsets: BitMap64
    keyless: BitMap64
    #: Their keys are not known yet; they will be met as fresh.
    unplaced: BitMap64
