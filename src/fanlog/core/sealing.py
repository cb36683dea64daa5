"""Sealing: records whose secrets are sealed in the log, and open in memory.

Some records have texts that are secrets: the webhook secrets of a subscription, and those of the
server itself. They are sealed where a record becomes bytes, and opened where hard state is loaded.
Everything else of such a record stays readable: `fanlog doctor` needs no key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fanlog.core.records import Record, SecretRecord, SubscriptionRecord
from fanlog.core.seal_keys import SealKeys
from fanlog.errors import DataLoss

#: A secret's text and its place, to another text.
Change = Callable[[str, bytes], str]


def change_secrets(record: Record, change: Change) -> Record:
    """A record with other texts for its secrets; itself where it has none.

    The place of a secret is the key of its record, and where it is in there.
    """
    match record:
        case SubscriptionRecord(id=subscription_id, subscription=subscription):
            if subscription is None or subscription.push is None:
                return record
            key, push = record.key(), subscription.push
            secrets = tuple(
                change(text, key + b"webhook_secrets %d" % index)
                for index, text in enumerate(push.webhook_secrets)
            )
            if not secrets:
                return record
            changed = replace(subscription, push=replace(push, webhook_secrets=secrets))
            return SubscriptionRecord(subscription_id, changed)
        case SecretRecord(name=name, secret=secret):
            if secret is None:
                return record
            text = change(secret.text, record.key() + b"text")
            return SecretRecord(name, replace(secret, text=text))
        case _:
            return record


class Sealing:
    """Seals and opens the secrets of records."""

    def __init__(self, keys: SealKeys) -> None:
        self._keys = keys
        self._has_keys = bool(keys)
        self.key_id = keys.first_id

    def value_of(self, record: Record) -> bytes | None:
        """The value of a record in the log."""
        # Few records have secrets, and every acknowledgement has some that do not.
        if self._has_keys and isinstance(record, SubscriptionRecord | SecretRecord):
            record = change_secrets(record, self._keys.seal)
        return record.value()

    def open(self, record: Record) -> Record:
        """A record of the log with its secrets open.

        Raises:
            ConfigError: A secret is sealed with a key that is not given.
            DataLoss: A secret was not sealed for this record, or it is damaged.
        """
        try:
            return change_secrets(record, self._keys.open)
        except DataLoss as error:
            raise DataLoss(f"state record {record.key().hex()}: {error.message}") from error

    def is_current(self, record: Record) -> bool:
        """Whether the secrets of a record of the log are as they would be written now."""
        is_current = True

        def look(text: str, _: bytes) -> str:
            nonlocal is_current
            is_current = is_current and self._keys.is_current(text)
            return text

        change_secrets(record, look)
        return is_current


class Opening:
    """One load of hard state: its secrets are opened, and records noted that are to be resealed."""

    def __init__(self, sealing: Sealing) -> None:
        self._sealing = sealing
        #: Open records whose secrets are plain though there is a key, or sealed with a later one.
        self.stale: list[Record] = []

    def __call__(self, record: Record) -> Record:
        opened = self._sealing.open(record)
        if not self._sealing.is_current(record):
            self.stale.append(opened)
        return opened
