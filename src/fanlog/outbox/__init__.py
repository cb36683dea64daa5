"""The transactional outbox: messages that are published if, and only if, a transaction commits.

A program adds messages to a table in the transaction of its own work (`Outbox`). A *relay*, or many
of them, publishes what is committed there, each message once and those of a key in order (`Relay`).
See `docs/guides/idempotent-consumers.md`.
"""

from fanlog.outbox.outbox import Outbox, OutboxStatus
from fanlog.outbox.publisher import EpochPublisher, OutboxRow
from fanlog.outbox.relay import Relay, RelayCounts

__all__ = ["EpochPublisher", "Outbox", "OutboxRow", "OutboxStatus", "Relay", "RelayCounts"]
