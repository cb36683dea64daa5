"""The trouble of a node: why it does not do what it should, in a sentence."""

from __future__ import annotations

import logging
from typing import Literal, NamedTuple

log = logging.getLogger("fanlog.cluster")

TroubleKind = Literal["none", "following", "name", "clock", "owning", "announcing"]


class NodeTrouble(NamedTuple):
    kind: TroubleKind
    #: Empty for none.
    sentence: str


NO_TROUBLE = NodeTrouble("none", "")


class NodeTroubles:
    """The present trouble of a node.

    It is logged when it comes, and not again while its kind lasts: sentences have numbers in them,
    which change all the time.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._present = NO_TROUBLE

    @property
    def sentence(self) -> str:
        return self._present.sentence

    def say(self, trouble: NodeTrouble) -> None:
        if not trouble.sentence:
            trouble = NO_TROUBLE
        elif trouble.kind != self._present.kind:
            log.error("action=node_trouble node=%s reason=%s", self._node, trouble.sentence)
        self._present = trouble
