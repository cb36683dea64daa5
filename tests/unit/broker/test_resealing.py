"""Resealing a log that no broker serves: one commit, whatever happens to it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fanlog.broker.resealing import LOST, give_up, reseal
from fanlog.broker.seal_key_file import new_seal_key, read_seal_keys, seal_keys
from fanlog.core.hard_state import HardState
from fanlog.core.records import Record, Secret, SecretRecord, SubscriptionRecord
from fanlog.core.seal_keys import NO_KEYS, SealKey, SealKeys
from fanlog.core.sealing import Opening, Sealing
from fanlog.errors import ConfigError, DataLoss
from fanlog.log.api import Commit, Log
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.memory import MemoryLog
from fanlog.model.resources import PartitionId, PushConfig, Subscription, SubscriptionId, TopicId

OLD, NEW = SealKey(b"1" * 32), SealKey(b"2" * 32)
WEBHOOK = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQ="


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


RECORDS: list[Record] = [
    pushed(4, WEBHOOK, WEBHOOK),
    pushed(5),
    SecretRecord("ack-ids", Secret(name="ack-ids", text="ab" * 32, boot=3)),
]


def fill(store: Log, keys: SealKeys) -> None:
    sealing = Sealing(keys)
    state = {record.key(): sealing.value_of(record) for record in RECORDS}
    store.commit(Commit(sequence=1, publish_time_ns=1_000, state=state))


def opened(store: Log, keys: SealKeys) -> dict[bytes, Record]:
    """What a start with these keys finds; it has nothing to seal."""
    opening = Opening(Sealing(keys))
    HardState.load(store.state(), open_secrets=opening)
    assert opening.stale == []
    found: list[Record] = []

    def look(record: Record) -> Record:
        found.append(opening(record))
        return found[-1]

    HardState.load(store.state(), open_secrets=look)
    return {record.key(): record for record in found}


EXPECTED = {record.key(): record for record in RECORDS}


def test_from_one_key_to_another_and_back_to_none():
    store = MemoryLog()
    fill(store, NO_KEYS)
    old, both, new = seal_keys([OLD]), seal_keys([NEW, OLD]), seal_keys([NEW])
    assert reseal(store, 5, opens=old, seals=old) == 2
    assert opened(store, old) == EXPECTED
    assert reseal(store, 6, opens=both, seals=both) == 2
    assert store.last_sequence == 3
    assert opened(store, new) == EXPECTED
    with pytest.raises(ConfigError, match=NEW.id.hex()):
        opened(store, old)
    # Again, as after a crash that came too late to matter: nothing is to be done.
    assert reseal(store, 7, opens=both, seals=both) == 0
    assert store.last_sequence == 3
    assert reseal(store, 8, opens=new) == 2
    assert opened(store, NO_KEYS) == EXPECTED
    assert dict(store.state()) == {record.key(): record.value() for record in RECORDS}


@pytest.mark.parametrize("keys", [seal_keys([NEW]), NO_KEYS])
def test_a_wrong_key_changes_nothing(keys: SealKeys):
    store = MemoryLog()
    fill(store, seal_keys([OLD]))
    before = dict(store.state())
    with pytest.raises(ConfigError, match=OLD.id.hex()):
        reseal(store, 5, opens=keys, seals=keys)
    assert (dict(store.state()), store.last_sequence) == (before, 1)


def test_a_record_that_cannot_be_read_changes_nothing():
    store = MemoryLog()
    fill(store, seal_keys([OLD]))
    store.commit(Commit(sequence=2, publish_time_ns=2_000, state={pushed(6).key(): b"\1{"}))
    keys = seal_keys([NEW, OLD])
    with pytest.raises(DataLoss, match="cannot be read"):
        reseal(store, 5, opens=keys, seals=keys)
    with pytest.raises(DataLoss, match="cannot be read"):
        give_up(store, 5)
    assert store.last_sequence == 2


def test_the_secrets_of_a_lost_key_are_given_up():
    store = MemoryLog()
    fill(store, seal_keys([OLD]))
    assert give_up(store, 5) == ["projects/p/subscriptions/s4"]
    hard = HardState.load(store.state(), open_secrets=Opening(Sealing(NO_KEYS)))
    assert hard.identities.secrets == {}
    [four, five] = sorted(hard.catalog.subscriptions(), key=lambda one: one.id)
    assert four.push is not None
    assert (four.push.webhook_secrets, four.push_off) == ((), LOST)
    assert four.push.endpoint == "https://example.org/hook"
    assert five.push_off == ""
    assert give_up(store, 6) == []
    assert store.last_sequence == 2


def test_plain_secrets_are_not_given_up():
    store = MemoryLog()
    fill(store, NO_KEYS)
    assert give_up(store, 5) == []
    assert opened(store, NO_KEYS) == EXPECTED


#: Ends the process, as a power cut would, around the commit.
CRASH = """
import os, sys
from fanlog.log.embedded import EmbeddedLog

commit, when = EmbeddedLog.commit, sys.argv[1]

def crash(self, change):
    if when == "after":
        commit(self, change)
    os._exit(9)

EmbeddedLog.commit = crash
sys.argv = ["fanlog", *sys.argv[2:]]
from fanlog.cli.main import main
main()
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_leaves_all_secrets_under_one_key(when: str, tmp_path: Path):
    for name, key in (("old", OLD), ("new", NEW)):
        (tmp_path / name).write_text(key.text())
        (tmp_path / name).chmod(0o600)
    store = EmbeddedLog(tmp_path / "data")
    fill(store, seal_keys([OLD]))
    store.close()
    command = [
        *(sys.executable, "-c", CRASH, when, "auth", "seal-key", "rotate"),
        *("--data-dir", str(tmp_path / "data")),
        *("--old", str(tmp_path / "old"), "--new", str(tmp_path / "new")),
    ]
    crashed = subprocess.run(command, env=os.environ, capture_output=True, timeout=60, check=False)
    assert crashed.returncode == 9, crashed.stderr
    store = EmbeddedLog(tmp_path / "data")
    [present, other] = [OLD, NEW] if when == "before" else [NEW, OLD]
    assert opened(store, seal_keys([present])) == EXPECTED
    with pytest.raises(ConfigError, match=present.id.hex()):
        opened(store, seal_keys([other]))
    # The same command again finishes what was begun, or finds that it is done.
    both = seal_keys([NEW, OLD])
    assert reseal(store, 5, opens=both, seals=both) == (2 if when == "before" else 0)
    assert opened(store, seal_keys([NEW])) == EXPECTED
    store.close()


def test_files_of_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "keys"
    made = new_seal_key()
    assert made != new_seal_key()
    path.write_text(f"# the new one first\n{made.text()}\n{OLD.text()}\n")
    path.chmod(0o600)
    assert read_seal_keys(path) == [made, OLD]
    assert caplog.messages == []
    path.chmod(0o644)
    assert read_seal_keys(path) == [made, OLD]
    assert "seal_key_shared" in caplog.text
    assert made.text()[5:] not in caplog.text
    for content in (b"", b"flsk_short", b"\xff\xfe", b"flsk_" + b"\0" * 43):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="seal key") as refused:
            read_seal_keys(path)
        assert str(path) in refused.value.message
    with pytest.raises(ConfigError, match="No such file"):
        read_seal_keys(tmp_path / "none")
    with pytest.raises(ConfigError, match="directory"):
        read_seal_keys(tmp_path)
