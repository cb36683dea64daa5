"""Idempotent consumers: messages that come twice are worked on once.

`once` keeps the ids of processed messages in the database of the consumer, in the transaction of
its own work: both are committed, or neither. See `docs/guides/idempotent-consumers.md`.
"""

from fanlog.consumers.processed import ProcessedIds, once

__all__ = ["ProcessedIds", "once"]
