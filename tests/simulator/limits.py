"""Bounds made small for one world, so that its few messages reach them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fanlog import limits
from fanlog.broker import sweeper
from fanlog.broker.delivery import dead_lettering, partition_filters
from fanlog.broker.retention import retention
from fanlog.broker.tiering import lake_tiers
from fanlog.core.share import Share
from simulator import tenants
from simulator.world import World

#: What a broker has when nobody makes it other.
_SWEEP_S = sweeper.SWEEP_S


def sweep_at_leisure() -> None:
    """Sweep no more often than brokers do: half an hour of nothing else would take minutes."""
    sweeper.SWEEP_S = max(sweeper.SWEEP_S, _SWEEP_S)


@contextmanager
def limited(world: World) -> Iterator[None]:
    """Patch the bounds that this world has smaller; put them back afterwards."""
    rng, temper = world.rng, world.temper
    patched: dict[tuple[object, str], object] = {}
    # A sweep every five seconds would be most of what happens in a slow world.
    sweep_s = max(5.0, temper.pace_s * rng.choice((1.0, 5.0)))
    patched[sweeper, "SWEEP_S"] = sweep_s
    if temper.lake:
        # Whatever the pace: here it is the sweep that is looked at.
        patched |= {
            (sweeper, "SWEEP_S"): temper.pace_s * rng.choice((1.0, 3.0)),
            (lake_tiers, "CHECK_S"): temper.pace_s * rng.choice((1.0, 10.0)),
            (lake_tiers, "START_S"): temper.pace_s * rng.choice((1.0, 10.0)),
            (retention, "COLD_HORIZON_S"): temper.pace_s * rng.choice((0.0, 5.0)),
        }
    if temper.small_limits:
        patched |= {
            (limits, "KEY_WAITING_MAX"): rng.choice((1, 2, 5)),
            (limits, "WAITING_MAX"): rng.choice((5, 10)),
            (limits, "READ_BYTES_MAX"): rng.choice((100, 1_000)),
            (limits, "ANSWER_BYTES_MAX"): rng.choice((200, 2_000)),
            (limits, "STREAM_ANSWER_BYTES_MAX"): rng.choice((200, 2_000)),
            (limits, "COMMIT_BYTES_MAX"): rng.choice((100, 1_000)),
            (limits, "ROUTE_READ_BYTES_MAX"): rng.choice((100, 1_000)),
            (limits, "ROUTES_COST_MAX"): rng.choice((1, 20)),
            (limits, "FILTER_CHANGES_MAX"): rng.choice((1, 3)),
            (limits, "SWEEP_ROUTED_MAX"): rng.choice((1, 100)),
            (partition_filters, "SEGMENT_OFFSETS"): rng.choice((1, 10)),
            (partition_filters, "STEP_OFFSETS"): rng.choice((1, 5)),
            (dead_lettering, "LETTERS_MAX"): rng.choice((1, 3)),
        }
    if temper.tenants:
        patched |= {
            (limits, "TENANT_TURN_MESSAGES"): 1,
            (limits, "TENANT_ANSWER_MESSAGES_MAX"): 3,
            (Share, "lease"): tenants.watched(world, Share.lease),
        }
    if temper.sinks:
        patched |= {
            (limits, "EPOCH_WHOLE_BYTES_MAX"): rng.choice((200, limits.EPOCH_WHOLE_BYTES_MAX)),
            (limits, "EPOCH_PART_BYTES"): rng.choice((1, 500)),
        }
    if temper.schedulers:
        patched |= {(limits, "SCHEDULE_CATCH_UP_MAX"): rng.choice((2, 10, 100))}
    if temper.pushes:
        patched |= {
            (limits, "PUSH_CONNECTIONS_PER_HOST_MAX"): rng.choice((1, 3, 512)),
            (limits, "PUSH_WINDOW_MAX"): rng.choice((4, 16, 256)),
            (limits, "PUSH_BREAKER_FAILURES"): rng.choice((2, 5)),
        }
    before = {(owner, name): getattr(owner, name) for owner, name in patched}
    try:
        for (owner, name), value in patched.items():
            setattr(owner, name, value)
        yield
    finally:
        for (owner, name), value in before.items():
            setattr(owner, name, value)
