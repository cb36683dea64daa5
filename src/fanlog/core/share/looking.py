"""Looking at messages of a share: where each stands, until when, and with whom. Changes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.attempts import Attempts
from fanlog.core.redelivery import Delayed
from fanlog.core.share.lease import Lease, LeaseTable
from fanlog.core.share.states import State
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Where one message stands on one share."""

    state: State
    #: Failed deliveries so far, as far as they are counted.
    failures: int = 0
    #: When the lease or the wait ends.
    until_s: float | None = None
    #: When it was leased; None for a lease of before a restart.
    granted_s: float | None = None
    #: The streaming client that holds the lease, as it calls itself; empty for others.
    client_id: str = ""


def looks(
    states: Mapping[State, BitMap64], leases: LeaseTable, delayed: Delayed, attempts: Attempts
) -> dict[Offset, Look]:
    """A look at each message in `states`."""
    outstanding = states.get(State.OUTSTANDING, BitMap64())
    lease_of: dict[Offset, Lease] = {
        offset: lease for lease, held in leases.holding(outstanding) for offset in held
    }
    due_of = delayed.dues(states.get(State.DELAYED, BitMap64()))
    found: dict[Offset, Look] = {}
    for state, offsets in states.items():
        for offset in offsets:
            failures = attempts[offset] if attempts else 0
            lease = lease_of.get(offset)
            if state is not State.OUTSTANDING or lease is None:
                until_s = due_of.get(offset) if state is State.DELAYED else None
                found[offset] = Look(state=state, failures=failures, until_s=until_s)
                continue
            client = None if lease.credit is None else lease.credit.client
            found[offset] = Look(
                state=state,
                failures=failures,
                until_s=lease.deadline_s,
                granted_s=None if math.isnan(lease.granted_s) else lease.granted_s,
                client_id=client if isinstance(client, str) else "",
            )
    return found
