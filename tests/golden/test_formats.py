"""Stored bytes of every format version there was: they are read for ever, and written alike.

A change to a format adds a file and a case; it never changes one.
"""

from __future__ import annotations

import itertools
import re
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from pyroaring import BitMap64

import entry_samples
from fanlog.core import records
from fanlog.core.drops import Drops, DropStretch
from fanlog.core.records import (
    AddressRecord,
    AgendaChunk,
    AlertRecord,
    DropRecord,
    ForgottenRecord,
    NumbersRecord,
    PlaceRecord,
    PublisherRecord,
    RememberedAnswer,
    ReopenedChunk,
    RequestRecord,
    ScheduleRecord,
    Secret,
    SecretRecord,
    SubscriptionRecord,
    TenantChunk,
    TopicRecord,
)
from fanlog.core.records.alerts import state_record
from fanlog.core.records.schedules import tick_record
from fanlog.core.reopening import OpenChunk
from fanlog.core.seal_keys import NONCE_BYTES, SealKey, SealKeys
from fanlog.core.sealing import Sealing
from fanlog.log import batch as codec
from fanlog.log import envelope
from fanlog.log.batch import Batch, Body
from fanlog.log.envelope import Kind, Record
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.alerts import Alert, AlertState
from fanlog.model.resources import (
    PartitionId,
    PushConfig,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)
from fanlog.model.schedules import Progress, Schedule
from fanlog.model.terms import TermKind, Terms

HERE = Path(__file__).parent

BATCHES = {
    "batch-v1-plain.bin": Batch(
        topic=3,
        partition=PartitionId(4),
        base_offset=1_000_000,
        sequence=12_345,
        publish_time_ns=1_735_689_600_123_456_789,
        starts=array("I", [0, 8, 17]),
        key_hashes=None,
        attributes={},
        content=b"\x12\x06\x0a\x04news\x12\x07\x0a\x05again",
    ),
    "batch-v1-keyed.bin": Batch(
        topic=2**64 - 1,
        partition=PartitionId(2**32 - 1),
        base_offset=2**63,
        sequence=2**63,
        publish_time_ns=2**63,
        starts=array("I", [0, 9, 17, 17]),
        key_hashes=array("Q", [0, 2**64 - 1, 7]),
        attributes={"CloudPubSubDeadLetterSourceDeliveryCount": "5", "ключ": ""},
        content=b"\x12\x07\x0a\x05first\x12\x06\x2a\x04keyk",
    ),
}
#: Since batches have seals.
SEALED = {
    "batch-v2-plain.bin": replace(BATCHES["batch-v1-plain.bin"], seal=UNSEALED),
    "batch-v2-letters.bin": replace(BATCHES["batch-v1-keyed.bin"], seal=Seal(is_letter=True)),
    "batch-v2-addressed.bin": replace(
        BATCHES["batch-v1-keyed.bin"],
        seal=Seal(is_letter=True, is_copy=True, addressee=2**64 - 1, hops=255),
    ),
}
#: Since messages have terms.
ASKING = {
    "batch-v3-terms.bin": replace(
        SEALED["batch-v2-addressed.bin"],
        terms=Terms.of(
            [
                (0, TermKind.DELAY, 90_500),
                (0, TermKind.PRIORITY, 9),
                (1, TermKind.DELIVER_AT, 1_735_689_600_123),
                (2, TermKind.DELAY, 2**64 - 1),
                (2, TermKind.TTL, 1),
            ]
        ),
    ),
}

ENVELOPES = {
    "envelope-v1-state.bin": (Kind.STATE, b"\x01\x00\x00\x00\x2a", b"a record of the broker"),
    "envelope-v1-partition.bin": (Kind.PARTITION, b"\x00\x00\x00\x04", bytes(range(17))),
    "envelope-v1-meta.bin": (
        Kind.META,
        b"identity",
        b"sixteen bytes...",
    ),
}

#: Hard state by its key; the file has the value. Bitmaps of a few, of a run, and of many apart.
RECORDS = {
    "record-v1-reopened-few.bin": (
        "4f" + "0000000000000003" + "00000002" + "0000000000000000",
        ReopenedChunk(3, PartitionId(2), 0, OpenChunk(BitMap64([5, 6, 9]), 7, 1.5)),
    ),
    "record-v1-reopened-wanted.bin": (
        "4f" + "ffffffffffffffff" + "ffffffff" + "0000000000e8d4a5",
        ReopenedChunk(
            2**64 - 1,
            PartitionId(2**32 - 1),
            0xE8D4A5,
            OpenChunk(
                BitMap64(range(0xE8D4A5_0000, 0xE8D4A5_FFFF)) - BitMap64([0xE8D4A5_0100]),
                2**63,
                1_700_000_000.25,
                BitMap64(range(0xE8D4A5_0000, 0xE8D4A5_0040, 2)),
            ),
        ),
    ),
    "record-v1-request.bin": (
        "51" + "0000000000000003" + "000102030405060708090a0b0c0d0e0f",
        RequestRecord(
            3, bytes(range(16)), RememberedAnswer(reopened=2**40, copied=17), 1_700_000_000.25
        ),
    ),
    # From before reasons were kept, and with them.
    "record-v1-request-skipped.bin": (
        "51" + "0000000000000003" + "000102030405060708090a0b0c0d0e0f",
        RequestRecord(
            3, bytes(range(16)), RememberedAnswer(reopened=5, skipped=7), 1_700_000_000.25
        ),
    ),
    "record-v1-request-reasons.bin": (
        "51" + "0000000000000003" + "000102030405060708090a0b0c0d0e0f",
        RequestRecord(
            3,
            bytes(range(16)),
            RememberedAnswer(reopened=5, skipped=7, unacked=2, ahead=4),
            1_700_000_000.25,
        ),
    ),
    "record-v1-addressed.bin": (
        "59" + "00000002" + "0000000000000007",
        AddressRecord(PartitionId(2), 7, BitMap64([3, *range(100, 1_000)])),
    ),
    "record-v1-agenda.bin": (
        "6b" + "00000002" + "09" + "0000000000000001",
        AgendaChunk(PartitionId(2), 9, 1, BitMap64([65_536, *range(70_000, 71_000)])),
    ),
    "record-v1-place.bin": (
        "6f" + "00000002" + "0000000000000009",
        PlaceRecord(PartitionId(2), 9, (7, 3)),
    ),
    "record-v1-publisher.bin": (
        "6d" + "00000002" + "000102030405060708090a0b0c0d0e0f",
        PublisherRecord(PartitionId(2), bytes(range(16)), 3, 2**63 - 1, 7, 1_700_000_000.25),
    ),
    "record-v1-numbers.bin": (
        "71" + "00000002" + "000102030405060708090a0b0c0d0e0f" + "0000000000000007",
        NumbersRecord(
            PartitionId(2), bytes(range(16)), 7, 9, 1_700_000_000.25, bytes(range(16, 32))
        ),
    ),
    "record-v1-forgotten.bin": ("66" + "00000002", ForgottenRecord(PartitionId(2), 7, 3)),
    "record-v1-tenant.bin": (
        "6e" + "00000002" + "1d6f2c3b4a596877" + "0000000000000001",
        TenantChunk(
            PartitionId(2), 0x1D6F2C3B4A596877, 1, BitMap64([65_536, *range(70_000, 71_000)])
        ),
    ),
    "record-v1-made-topic.bin": (
        "54" + "0000000000000001",
        TopicRecord(
            TopicId(1),
            Topic(
                id=TopicId(1),
                name="projects/p/topics/t",
                partitions=(PartitionId(2),),
                created_s=1_700_000_000.25,
                maker="serviceAccount:ci@0123456789abcdef.fanlog.internal",
            ),
        ),
    ),
    "record-v1-schedule.bin": (
        "63" + "109eec0ee67f0b640c0d89103f7be76a",
        ScheduleRecord(
            "projects/p/schedules/daily",
            Schedule(
                name="projects/p/schedules/daily",
                topic="projects/p/topics/orders",
                cron="0 7 * * mon-fri",
                time_zone="Europe/Berlin",
                data=b"\x00\xff",
                attributes={"kind": "täglich"},
                ordering_key="k",
                missed="LATEST",
                is_paused=True,
                created_s=1_700_000_000.25,
            ),
        ),
    ),
    "record-v1-alert.bin": (
        "65" + "d2e809215944273c9153b06205a990ec",
        AlertRecord(
            "projects/p/alerts/behind",
            Alert(
                name="projects/p/alerts/behind",
                condition="BACKLOG_AGE",
                subscription="projects/p/subscriptions/billing",
                limit=600,
                clear=60,
                minimum_s=120.0,
                created_s=1_700_000_000.25,
            ),
        ),
    ),
    "record-v1-alert-state.bin": (
        "68" + "d2e809215944273c9153b06205a990ec",
        state_record(
            "projects/p/alerts/behind",
            AlertState(
                is_holding=True,
                since_s=1_700_000_000.5,
                turning_s=1_700_000_060.25,
                number=3,
                last_message_id="2000000000007",
                sentence="behind: täglich",
            ),
        ),
    ),
    "record-v1-drops.bin": (
        "64" + "0000000000000007" + "00000004",
        DropRecord(
            7,
            PartitionId(4),
            Drops(
                {"limit": 3, "sample": 40},
                (
                    DropStretch("limit", 10, 13, 3, 1_700_000_000.5, 1_700_000_001.0),
                    DropStretch("sample", 13, 93, 40, 1_700_000_002.0, 1_700_000_009.25),
                ),
                ((13, 1), (93, 0)),
            ),
        ),
    ),
    "record-v1-tick.bin": (
        "74" + "109eec0ee67f0b640c0d89103f7be76a",
        tick_record(
            "projects/p/schedules/daily",
            Progress(
                decided_s=1_700_000_060,
                last_tick_s=1_700_000_040,
                last_message_id="2000000000007",
                published=8,
                missed=3,
                error="no room",
                error_s=1_700_000_000.5,
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_older_batches_are_read(name: str):
    assert codec.decode((HERE / name).read_bytes()) == BATCHES[name]


@pytest.mark.parametrize("name", SEALED | ASKING)
def test_batches(name: str):
    batch, value = (SEALED | ASKING)[name], (HERE / name).read_bytes()
    assert codec.decode(value) == batch
    assert batch.seal is not None
    body = Body(
        content=batch.content,
        starts=batch.starts,
        key_hashes=batch.key_hashes,
        attributes=batch.attributes,
        seal=batch.seal,
        terms=batch.terms,
    )
    encoded = codec.encode(
        [body],
        sequence=batch.sequence,
        topic=batch.topic,
        partition=batch.partition,
        base_offset=batch.base_offset,
        publish_time_ns=batch.publish_time_ns,
    )
    assert list(encoded) == [(batch.base_offset, value)]


@pytest.mark.parametrize("name", ENVELOPES)
def test_envelopes(name: str):
    (kind, key, payload), value = ENVELOPES[name], (HERE / name).read_bytes()
    sequence, publish_time_ns = 12_345, 1_735_689_600_123_456_789
    assert envelope.decode(value) == Record(
        kind, key, payload, sequence, publish_time_ns, len(value)
    )
    encoded = envelope.encode(
        kind, key, payload, sequence=sequence, publish_time_ns=publish_time_ns
    )
    assert encoded == value


@pytest.mark.parametrize("name", RECORDS)
def test_records(name: str):
    (key, record), value = RECORDS[name], (HERE / name).read_bytes()
    assert records.decode(bytes.fromhex(key), value) == record
    assert (record.key().hex(), record.value()) == (key, value)


SEAL_KEY = SealKey(bytes(range(32)))
#: Records whose secrets are sealed with that key; its nonces are counted.
SEALED_RECORDS = {
    "record-v1-sealed-subscription.bin": SubscriptionRecord(
        SubscriptionId(7),
        Subscription(
            id=SubscriptionId(7),
            name="projects/p/subscriptions/s",
            topic="projects/p/topics/t",
            topic_id=TopicId(1),
            partitions=(PartitionId(2),),
            push=PushConfig(
                endpoint="https://example.org/hook",
                webhook_secrets=(
                    "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtcGxhbnRlZA==",
                    "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItMTI=",
                ),
            ),
        ),
    ),
    "record-v1-sealed-secret.bin": SecretRecord(
        "ack-ids", Secret(name="ack-ids", text="0123456789abcdef" * 4, boot=3)
    ),
}


@pytest.mark.parametrize("name", SEALED_RECORDS)
def test_sealed_records(name: str):
    record, value = SEALED_RECORDS[name], (HERE / name).read_bytes()
    nonces = itertools.count(1)
    sealing = Sealing(SealKeys([SEAL_KEY], lambda: next(nonces).to_bytes(NONCE_BYTES, "big")))
    assert sealing.open(records.decode(record.key(), value)) == record
    # Of the sealed texts alone: fields that a resource gets later are no change of the seal.
    texts = re.findall(rb'"sealed:[^"]+"', value)
    assert texts
    assert re.findall(rb'"sealed:[^"]+"', sealing.value_of(record) or b"") == texts


#: The tests of the spool have these.
STAGES = {"stage-v1.bin", "stage-v1-batch-v2.bin"}


def test_every_golden_file_is_tested():
    tested = (
        BATCHES.keys() | SEALED.keys() | ASKING.keys() | ENVELOPES.keys() | RECORDS.keys() | STAGES
    )
    tested |= SEALED_RECORDS.keys()
    # Those of test_entries.py.
    tested |= {f"entry-v1-{name}.bin" for name in entry_samples.samples()}
    assert {path.name for path in HERE.glob("*.bin")} == tested
