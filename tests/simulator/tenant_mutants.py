"""Planted bugs of tenants: turns that are none, and messages that are passed."""

from __future__ import annotations

from typing import Any

from fanlog.core.agenda import Agenda
from fanlog.core.records import TenantChunk
from fanlog.core.share.fair import FairBacklog
from fanlog.core.share.unordered import UnorderedBacklog
from simulator.planting import mutant


@mutant("tenants have no turns", 60, (FairBacklog, "plan"), (FairBacklog, "take"), needs="tenants")
def _(before: Any) -> Any:
    # As without the label: the oldest first.
    return getattr(UnorderedBacklog, before.__name__)


@mutant("the turn stays with its tenant", 60, (FairBacklog, "_rotation"), needs="tenants")
def _(_: Any) -> Any:
    def rotation(self: FairBacklog, agenda: Any) -> Any:
        most = sorted(agenda.tenants, key=lambda one: -len(agenda.tenants[one]))
        return [*most, 0]

    return rotation


@mutant("what came back is not looked for", 60, (FairBacklog, "_look_again"), needs="tenants")
def _(_: Any) -> Any:
    return lambda self, offsets: None


@mutant("a message of a tenant is nobody's as well", 60, (Agenda, "_apply_tenant"), needs="tenants")
def _(apply: Any) -> Any:
    def applied(self: Agenda, record: TenantChunk) -> None:
        apply(self, record)
        if record.offsets is not None:
            self.tenants[record.tenant] -= record.offsets

    return applied
