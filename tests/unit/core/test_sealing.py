"""Records with secrets: sealed as bytes, open in memory, bound to their place."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from fanlog.core import records as codec
from fanlog.core.hard_state import HardState
from fanlog.core.records import Counters, Record, Secret, SecretRecord, SubscriptionRecord
from fanlog.core.seal_keys import NO_KEYS, SealKey, SealKeys
from fanlog.core.sealing import Opening, Sealing
from fanlog.errors import ConfigError, DataLoss
from fanlog.model.resources import PartitionId, PushConfig, Subscription, SubscriptionId, TopicId

SECRETS = ("whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQ=", "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXI=")
OLD, NEW = SealKey(b"1" * 32), SealKey(b"2" * 32)


def sealing(*keys: SealKey) -> Sealing:
    nonces = itertools.count()
    return Sealing(SealKeys(keys, lambda: next(nonces).to_bytes(12, "big")) if keys else NO_KEYS)


def pushed(number: int, *secrets: str) -> SubscriptionRecord:
    subscription = Subscription(
        id=SubscriptionId(number),
        name=f"projects/p/subscriptions/s{number}",
        topic="projects/p/topics/t",
        topic_id=TopicId(1),
        partitions=(PartitionId(1),),
        push=PushConfig(endpoint="https://example.org/hook", webhook_secrets=secrets),
    )
    return SubscriptionRecord(subscription.id, subscription)


def own(name: str = "ack-ids") -> SecretRecord:
    return SecretRecord(name, Secret(name=name, text="ab" * 32, boot=3))


WITHOUT: list[Record] = [
    Counters(5, 2),
    pushed(4),
    SubscriptionRecord(SubscriptionId(4), None),
    SecretRecord("ack-ids", None),
]


def stored(record: Record, by: Sealing) -> Record:
    """The record as it is read back without a key."""
    value = by.value_of(record)
    assert value is not None
    return codec.decode(record.key(), value)


@pytest.mark.parametrize("record", [pushed(4, *SECRETS), own()])
def test_secrets_are_sealed_and_all_else_is_readable(record: Record):
    value = sealing(OLD).value_of(record)
    assert value is not None
    for secret in (*SECRETS, "ab" * 32):
        assert secret.encode() not in value
    read = codec.decode(record.key(), value)
    assert read != record
    assert sealing(OLD).open(read) == record
    if isinstance(read, SubscriptionRecord):
        assert read.subscription is not None
        assert read.subscription.name == "projects/p/subscriptions/s4"


@pytest.mark.parametrize("record", [*WITHOUT, pushed(4, *SECRETS), own()])
def test_without_a_key_records_are_written_as_ever(record: Record):
    assert sealing().value_of(record) == record.value()
    assert sealing().open(record) == record
    assert sealing().is_current(record)


@pytest.mark.parametrize("record", WITHOUT)
def test_records_without_secrets_are_written_as_ever_with_a_key(record: Record):
    assert sealing(OLD).value_of(record) == record.value()
    assert sealing(OLD).is_current(record)


def test_secrets_cannot_be_moved():
    one, two = stored(pushed(4, *SECRETS), sealing(OLD)), pushed(5, *SECRETS)
    assert isinstance(one, SubscriptionRecord)
    assert one.subscription is not None
    assert one.subscription.push is not None
    found = one.subscription.push.webhook_secrets
    # To another subscription, and to another place of the same one.
    for number, secrets in ((5, found), (4, found[::-1]), (4, found[1:])):
        with pytest.raises(DataLoss, match="moved here from another place") as refused:
            sealing(OLD).open(pushed(number, *secrets))
        assert two.key().hex()[:2] in refused.value.message
        assert "whsec" not in refused.value.message
    ack_ids = stored(own("ack-ids"), sealing(OLD))
    assert isinstance(ack_ids, SecretRecord)
    assert ack_ids.secret is not None
    moved = SecretRecord("access-tokens", replace(ack_ids.secret, name="access-tokens"))
    with pytest.raises(DataLoss, match="moved here from another place"):
        sealing(OLD).open(moved)


def state(*records: Record, by: Sealing) -> list[tuple[bytes, bytes]]:
    found = {record.key(): by.value_of(record) for record in records}
    return sorted((key, value) for key, value in found.items() if value is not None)


def test_hard_state_is_open_and_says_what_is_to_be_resealed():
    old, both = sealing(OLD), sealing(NEW, OLD)
    written = [
        *state(pushed(4, *SECRETS), own(), by=old),
        *state(pushed(5, SECRETS[0]), by=sealing()),
        *state(pushed(6, SECRETS[1]), by=sealing(NEW)),
        *state(pushed(7), by=old),
    ]
    opening = Opening(both)
    hard = HardState.load(sorted(written), open_secrets=opening)
    secrets = {one.id: one.push.webhook_secrets for one in hard.catalog.subscriptions() if one.push}
    assert secrets == {4: SECRETS, 5: SECRETS[:1], 6: SECRETS[1:], 7: ()}
    assert hard.identities.secrets["ack-ids"].text == "ab" * 32
    assert opening.stale == [pushed(4, *SECRETS), pushed(5, SECRETS[0]), own()]


def test_a_load_without_the_key_is_refused_by_its_id():
    written = state(pushed(4, *SECRETS), by=sealing(OLD))
    for some in (sealing(), sealing(NEW)):
        with pytest.raises(ConfigError, match=OLD.id.hex()):
            HardState.load(written, open_secrets=Opening(some))
    # The doctor looks without one.
    assert [one.id for one in HardState.load(written).catalog.subscriptions()] == [4]


def test_no_secret_is_shown():
    for record in (own(), pushed(4, *SECRETS)):
        for secret in (*SECRETS, "ab" * 32):
            assert secret not in repr(record)
