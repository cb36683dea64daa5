"""Resealing: the secrets of a log that no broker serves are sealed with another key, or with none.

Each change is one commit: a crash leaves all secrets as they were, or all of them changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fanlog.core import records as codec
from fanlog.core.records import Record, SecretRecord, SubscriptionRecord
from fanlog.core.seal_keys import NO_KEYS, SealKeys
from fanlog.core.sealing import Sealing
from fanlog.errors import DataLoss
from fanlog.log.api import Commit, Log

_KINDS = (SubscriptionRecord.KIND, SecretRecord.KIND)
#: Why nothing is pushed for a subscription whose webhook secrets are lost.
LOST = "its webhook secrets were lost with the seal key"


def reseal(store: Log, now_ns: int, *, opens: SealKeys, seals: SealKeys = NO_KEYS) -> int:
    """Seal all secrets with the first key of `seals`, or leave them plain if it has none.

    Returns the number of records that were written: none when all were as they should be.

    Raises:
        ConfigError: A secret is sealed with a key that `opens` does not have; nothing was changed.
        DataLoss: A record cannot be read, or a secret cannot be opened; nothing was changed.
    """
    opening, sealing = Sealing(opens), Sealing(seals)
    # All are opened, those too that stay as they are: a wrong key is to be noticed.
    opened = [(record, opening.open(record)) for record in _records(store)]
    stale = [open_record for record, open_record in opened if not sealing.is_current(record)]
    _commit(store, {record.key(): sealing.value_of(record) for record in stale}, now_ns)
    return len(stale)


def give_up(store: Log, now_ns: int) -> list[str]:
    """Remove all sealed secrets of a log whose seal key is lost.

    The server makes new ones for itself at its next start. Subscriptions with webhook secrets push
    nothing until somebody sets their push config: an endpoint must not get unsigned requests.

    Returns the names of those subscriptions.

    Raises:
        DataLoss: A record cannot be read; nothing was changed.
    """
    sealed = [record for record in _records(store) if not Sealing(NO_KEYS).is_current(record)]
    _commit(store, {one.key(): one.value() for one in map(_without_secrets, sealed)}, now_ns)
    return [
        record.subscription.name
        for record in sealed
        if isinstance(record, SubscriptionRecord) and record.subscription is not None
    ]


def _without_secrets(record: Record) -> Record:
    if isinstance(record, SubscriptionRecord):
        subscription = record.subscription
        assert subscription is not None
        assert subscription.push is not None
        push = replace(subscription.push, webhook_secrets=())
        return SubscriptionRecord(record.id, replace(subscription, push=push, push_off=LOST))
    assert isinstance(record, SecretRecord)
    return SecretRecord(record.name, None)


def _records(store: Log) -> Iterator[Record]:
    """The records that may have secrets, as they are stored."""
    for key, value in store.state():
        if key[:1] in _KINDS:
            try:
                yield codec.decode(key, value)
            except (ValueError, TypeError, KeyError) as error:
                raise DataLoss(f"state record {key.hex()} cannot be read: {error}") from error


def _commit(store: Log, state: dict[bytes, bytes | None], now_ns: int) -> None:
    if state:
        store.commit(
            Commit(
                sequence=store.last_sequence + 1,
                publish_time_ns=max(now_ns, store.last_publish_time_ns),
                state=state,
            )
        )
