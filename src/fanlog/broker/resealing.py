"""Resealing: the secrets of a log that no broker serves are sealed with another key, in one commit.

A crash leaves all of them as they were, or all of them sealed anew.
"""

from __future__ import annotations

from fanlog.core import records as codec
from fanlog.core.records import Record, SecretRecord, SubscriptionRecord
from fanlog.core.seal_keys import SealKeys
from fanlog.core.sealing import Opening, Sealing
from fanlog.errors import DataLoss
from fanlog.log.api import Commit, Log

_KINDS = (SubscriptionRecord.KIND, SecretRecord.KIND)


def reseal(store: Log, keys: SealKeys, now_ns: int) -> int:
    """Seal all secrets with the first of `keys`; the others open them. Plain ones are sealed, too.

    Returns the number of records that were written: none when all were sealed so already.

    Raises:
        ConfigError: A secret is sealed with a key that is not given; nothing was changed.
        DataLoss: A record cannot be read, or a secret cannot be opened; nothing was changed.
    """
    sealing = Sealing(keys)
    opening = Opening(sealing)
    for key, value in store.state():
        if key[:1] in _KINDS:
            opening(_decode(key, value))
    if opening.stale:
        store.commit(
            Commit(
                sequence=store.last_sequence + 1,
                publish_time_ns=max(now_ns, store.last_publish_time_ns),
                state={record.key(): sealing.value_of(record) for record in opening.stale},
            )
        )
    return len(opening.stale)


def _decode(key: bytes, value: bytes) -> Record:
    try:
        return codec.decode(key, value)
    except (ValueError, TypeError, KeyError) as error:
        raise DataLoss(f"state record {key.hex()} cannot be read: {error}") from error
