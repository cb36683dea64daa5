"""The delivery machine: one subscription's share in one partition.

`share` has the verbs, `states` the table of states that they move messages through, `state` the
hard state and its records, `soft_state` everything that a restart may lose.
"""

from fanlog.core.redelivery import DeadLetter
from fanlog.core.share.decision import Decision, Grant, ShareStats
from fanlog.core.share.lease import ByGeneration
from fanlog.core.share.looking import Look
from fanlog.core.share.share import Share
from fanlog.core.share.states import State

__all__ = [
    "ByGeneration",
    "DeadLetter",
    "Decision",
    "Grant",
    "Look",
    "Share",
    "ShareStats",
    "State",
]
