"""A data folder becomes the log of a cluster, whatever happens on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fanlog.errors import ConfigError, DataFolderInUse, DataLoss, FanlogError, Unavailable
from fanlog.log import folder
from fanlog.log.api import Trim
from fanlog.log.backup import backup
from fanlog.log.doctor import examine
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.replicated import importing
from fanlog.log.replicated.agreement import examine_cache
from fanlog.log.replicated.checkpoints import UpkeepPace
from fanlog.log.replicated.importing import Import, Imported, ImportSource
from fanlog.log.replicated.partition import Produced, Uncertain
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.side_files import SideFiles
from fanlog.testing.conformance import ALL_BYTES, ONE, TWO, Author, make_body, messages_of
from fanlog.testing.damage import damage_batch
from fanlog.testing.kafka_partition import KafkaTopic, MemoryPartition, ProduceFault
from replica_nodes import ReplicaNodes, read_all

CARD = b"(import)"
#: Of the test's own records: each names a stage.
BESIDE = SideFiles("stages", b"file/", lambda key, value: [value.decode()])
STAGE = bytes(range(256)) * 20


class Killed(BaseException):
    """The process is gone."""


class DyingPartition(MemoryPartition):
    """The process that uses it is killed before, or behind, one of its records."""

    def __init__(self, topic: KafkaTopic, *, left: int, is_behind: bool) -> None:
        super().__init__(topic)
        self._left = left
        self._is_behind = is_behind

    def produce(self, value: bytes) -> Produced | Uncertain:
        self._left -= 1
        if self._left < 0 and not self._is_behind:
            raise Killed
        answer = super().produce(value)
        if self._left < 0:
            raise Killed
        return answer


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "PIECE_BYTES", 1_000)


@pytest.fixture
def source_dir(tmp_path: Path) -> Path:
    """Messages in two partitions, of which the first was trimmed, state, and a stage."""
    log = EmbeddedLog(tmp_path / "data")
    author = Author(log)
    for i in range(12):
        author.commit({ONE: [make_body(b"%d" % i, b"x" * 400)]}, state={b"k%d" % i: b"v" * 300})
    author.commit({TWO: [make_body(b"two")]}, state={b"file/1": b"s1.stage", b"k3": None})
    author.commit({}, trims=[Trim(partition=ONE, before=5)])
    log.close()
    (tmp_path / "data" / "stages").mkdir()
    (tmp_path / "data" / "stages" / "s1.stage").write_bytes(STAGE)
    return tmp_path / "data"


@pytest.fixture
def topic() -> KafkaTopic:
    return KafkaTopic()


@pytest.fixture
def nodes(tmp_path: Path, topic: KafkaTopic) -> Iterator[ReplicaNodes]:
    nodes = ReplicaNodes(tmp_path / "nodes", topic)
    yield nodes
    nodes.close()


@pytest.fixture
def bring(tmp_path: Path) -> Callable[..., Imported]:
    runs = iter(range(1_000))

    def bring(source_dir: Path, topic: KafkaTopic, partition: MemoryPartition | None = None):
        source = ImportSource(source_dir)
        try:
            chosen = partition or MemoryPartition(topic)
            run = Import(source, chosen, CARD, beside=BESIDE, patience_s=0.0)
            return run.run(tmp_path / f"work-{next(runs)}")
        finally:
            source.close()

    return bring


def contents(log: EmbeddedLog | ReplicatedLog) -> tuple[object, ...]:
    messages = [
        messages_of(asyncio.run(log.read(partition, 0, max_bytes=ALL_BYTES)))
        for partition in (ONE, TWO)
    ]
    facts = (log.identity, log.last_sequence, log.last_publish_time_ns)
    return (*facts, dict(log.partitions()), dict(log.state()), messages)


def contents_in(data_dir: Path) -> tuple[object, ...]:
    log = EmbeddedLog(data_dir)
    try:
        return contents(log)
    finally:
        log.close()


def caught_up(nodes: ReplicaNodes, name: str) -> ReplicatedLog:
    """A node that read all there is, and owns then."""
    node = nodes.make(name)
    read_all(node)
    assert node.take_over(), node.standing.sentence
    return node


def check_serves(nodes: ReplicaNodes, source_dir: Path) -> None:
    """Two nodes begin with all of it, and one of them goes on from there."""
    first, second = caught_up(nodes, "first"), nodes.make("second")
    assert contents(first) == contents_in(source_dir)
    assert (first.stages_dir / "s1.stage").read_bytes() == STAGE
    Author(first).commit({TWO: [make_body(b"and on")]})
    read_all(second)
    assert contents(second) == contents(first)
    assert second.last_sequence == 15


def test_nodes_go_on_from_an_imported_folder(source_dir, topic, nodes, bring):
    found = bring(source_dir, topic)
    assert (found.sequence, found.message_count, found.was_complete) == (14, 21, False)
    check_serves(nodes, source_dir)


def test_a_second_run_compares_and_writes_nothing(source_dir, topic, bring):
    bring(source_dir, topic)
    records = topic.records()
    assert bring(source_dir, topic).was_complete
    assert topic.records() == records


@pytest.mark.parametrize("is_behind", [False, True], ids=["before", "behind"])
def test_killed_at_any_record_it_goes_on(source_dir, tmp_path, bring, is_behind):
    whole = KafkaTopic()
    bring(source_dir, whole)
    count = whole.records()[-1].offset + 1
    assert count > 15
    for left in range(count):
        topic = KafkaTopic()
        dying = DyingPartition(topic, left=left, is_behind=is_behind)
        with pytest.raises(Killed):
            bring(source_dir, topic, dying)
        found = bring(source_dir, topic)
        assert found.was_complete == (is_behind and left == count - 1)
        # What stood there was not written again: a second take-over, and a stage that was not
        # known to be whole, are all.
        assert topic.records()[-1].offset + 1 <= count + 8
        nodes = ReplicaNodes(tmp_path / f"{left}-{is_behind}", topic)
        try:
            check_serves(nodes, source_dir)
        finally:
            nodes.close()


def test_no_node_owns_before_the_last_piece(source_dir, tmp_path, bring):
    whole = KafkaTopic()
    bring(source_dir, whole)
    hand_over = whole.records()[-1].offset
    for end in range(2, hand_over):
        nodes = ReplicaNodes(tmp_path / f"{end}", whole.copy(end))
        try:
            node = nodes.make("early")
            read_all(node)
            assert not node.take_over()
            assert "whole snapshot" in node.standing.sentence
        finally:
            nodes.close()


@pytest.mark.parametrize("fault", list(ProduceFault))
def test_records_whose_acknowledgement_fails(source_dir, topic, nodes, bring, fault):
    for _ in range(3):
        topic.script(ProduceFault.NONE, ProduceFault.NONE, fault)
        try:
            bring(source_dir, topic)
        except Unavailable:
            topic.arrive()
    topic.script()
    bring(source_dir, topic)
    check_serves(nodes, source_dir)


def test_a_cluster_with_another_log_is_refused(source_dir, topic, nodes, bring):
    Author(nodes.owner("first")).commit({ONE: [make_body(b"mine")]})
    records = topic.records()
    with pytest.raises(ConfigError, match="has another log"):
        bring(source_dir, topic)
    assert topic.records() == records


def test_a_cluster_that_went_on_is_refused(source_dir, topic, nodes, bring):
    bring(source_dir, topic)
    check_serves(nodes, source_dir)
    with pytest.raises(ConfigError, match="goes on from it: it is at commit 15"):
        bring(source_dir, topic)


def test_a_folder_that_was_served_meanwhile_is_refused(source_dir, topic, bring):
    with pytest.raises(Killed):
        bring(source_dir, topic, DyingPartition(topic, left=8, is_behind=True))
    log = EmbeddedLog(source_dir)
    Author(log).commit({ONE: [make_body(b"late")]})
    log.close()
    with pytest.raises(ConfigError, match="it was served since the import began"):
        bring(source_dir, topic)


def test_an_import_that_still_runs_is_fenced(source_dir, topic, tmp_path, bring):
    class Overtaken(MemoryPartition):
        """A second import runs when the first has written some records."""

        left = 6

        def produce(self, value: bytes) -> Produced | Uncertain:
            self.left -= 1
            if self.left == 0:
                # The folder is held by the first: a copy of it.
                backup(tmp_path / "copied", tmp_path / "copy", beside=BESIDE)
                bring(tmp_path / "copy", topic)
            return super().produce(value)

    backup(source_dir, tmp_path / "copied", beside=BESIDE)
    with pytest.raises(Unavailable, match="another writer took the cluster 'cluster' over"):
        bring(source_dir, topic, Overtaken(topic))
    assert bring(source_dir, topic).was_complete


def test_folders_that_cannot_be_imported(source_dir, topic, tmp_path, bring):
    log = EmbeddedLog(source_dir)
    with pytest.raises(DataFolderInUse):
        bring(source_dir, topic)
    log.close()
    EmbeddedLog(tmp_path / "empty").close()
    with pytest.raises(ConfigError, match="has no commit"):
        bring(tmp_path / "empty", topic)
    damage_batch(source_dir, ONE, 6)
    with pytest.raises(DataLoss, match="is damaged, and nothing was imported"):
        bring(source_dir, topic)
    assert topic.records() == []


class TestFolderOfANode:
    @pytest.fixture
    def cache_dir(self, source_dir, topic, nodes, bring) -> Path:
        """Of a node that is closed, and at the end of a log that was imported."""
        bring(source_dir, topic)
        node = caught_up(nodes, "first")
        Author(node).commit({ONE: [make_body(b"more")]}, state={b"k0": b"new"})
        node.hand_over("")
        node.close()
        return nodes.cache_dir("first")

    def test_its_backup_is_a_folder_of_its_own(self, cache_dir, topic, nodes, tmp_path, bring):
        report = backup(cache_dir, tmp_path / "backup", beside=BESIDE)
        assert report.findings == []
        assert (tmp_path / "backup" / "stages" / "s1.stage").read_bytes() == STAGE
        node = nodes.make("first")
        assert contents_in(tmp_path / "backup") == contents(node)
        Author(caught_up(nodes, "second")).commit({ONE: [make_body(b"and on")]})
        with pytest.raises(ConfigError, match="goes on from it"):
            bring(tmp_path / "backup", topic)
        other = KafkaTopic()
        bring(tmp_path / "backup", other)
        restored = ReplicaNodes(tmp_path / "restored", other)
        assert contents(caught_up(restored, "first")) == contents_in(tmp_path / "backup")
        restored.close()

    def test_a_backup_of_a_part_is_refused(self, source_dir, tmp_path, bring):
        whole = KafkaTopic()
        bring(source_dir, whole)
        nodes = ReplicaNodes(tmp_path / "early", whole.copy(whole.records()[-1].offset - 1))
        node = nodes.make("early")
        read_all(node)
        node.close()
        with pytest.raises(ConfigError, match="has not read all of the log yet"):
            backup(nodes.cache_dir("early"), tmp_path / "backup")

    def test_others_refuse_it(self, cache_dir, topic, tmp_path, bring):
        uses: list[Callable[[], object]] = [
            lambda: EmbeddedLog(cache_dir),
            lambda: EmbeddedLog(cache_dir / "log"),
            lambda: bring(cache_dir, KafkaTopic()),
            lambda: bring(cache_dir / "log", KafkaTopic()),
        ]
        for use in uses:
            with pytest.raises(ConfigError, match="is the cache of a node of a cluster"):
                use()

    def test_a_node_refuses_the_folder_of_a_server(self, source_dir, tmp_path, topic):
        nodes = ReplicaNodes(tmp_path, topic)
        with pytest.raises(ConfigError, match="holds the log of a single server"):
            nodes.make(source_dir.name)

    def test_kafka_and_the_cache_agree(self, cache_dir, topic, tmp_path):
        report = examine(cache_dir)
        assert report.findings == []
        examine_cache(cache_dir, MemoryPartition(topic), report, tmp_path / "work")
        assert report.is_healthy, report.findings
        texts = [finding.text for finding in report.findings]
        assert any("the cache and Kafka agree at offset" in text for text in texts)

    @pytest.mark.parametrize("what", ["state", "batch", "bounds"])
    def test_a_cache_that_tells_something_else(self, cache_dir, topic, tmp_path, what):
        log = EmbeddedLog(cache_dir / "log", syncs=False)
        if what == "state":
            store, key = log._store, b"k1"
            log.change(lambda writing: writing.txn.delete(key, db=store.state), "damage")
            told = "6b31: the cache does not have it"
        elif what == "batch":
            store = log._store
            key = folder.batch_key(ONE, 8)
            log.change(lambda writing: writing.txn.delete(key, db=store.batches), "damage")
            told = "partition 1 offset 8: the batch in the cache is not the one in Kafka"
        else:
            log.change(
                lambda writing: writing.rows.update(
                    {TWO: folder.PartitionRow(0, 7, is_dropped=False)}
                ),
                "damage",
            )
            told = "partition 2: the cache has offsets 0 to 7, Kafka has offsets 0 to 1"
        log.close()
        report = examine(cache_dir)
        examine_cache(cache_dir, MemoryPartition(topic), report, tmp_path / "work")
        assert not report.is_healthy
        assert any(told in finding.text for finding in report.findings), report.findings

    def test_a_record_that_changed_in_kafka(self, cache_dir, topic, tmp_path):
        records = topic.records()
        at = next(i for i, record in enumerate(records) if len(record.value) > 500)
        value = bytearray(records[at].value)
        value[-1] ^= 1
        topic._records[at] = records[at]._replace(value=bytes(value))
        report = examine(cache_dir)
        examine_cache(cache_dir, MemoryPartition(topic), report, tmp_path / "work")
        errors = [one.text for one in report.findings if one.severity == "error"]
        (error,) = errors
        assert error.startswith(f"Kafka: the record at offset {records[at].offset}: the payload")

    def test_kafka_lost_the_end(self, cache_dir, topic, tmp_path):
        topic.cut(topic.records()[-1].offset)
        report = examine(cache_dir)
        examine_cache(cache_dir, MemoryPartition(topic), report, tmp_path / "work")
        errors = [one.text for one in report.findings if one.severity == "error"]
        assert len(errors) == 1
        assert "Kafka lost records that were acknowledged" in errors[0]

    def test_of_another_cluster(self, cache_dir, tmp_path):
        report = examine(cache_dir)
        other = MemoryPartition(KafkaTopic("other"))
        with pytest.raises(ConfigError, match="is the cache of the cluster 'cluster'"):
            examine_cache(cache_dir, other, report, tmp_path / "work")

    def test_of_a_server(self, source_dir, topic, tmp_path):
        report = examine(source_dir)
        with pytest.raises(ConfigError, match="is that of a single server"):
            examine_cache(source_dir, MemoryPartition(topic), report, tmp_path / "work")

    def test_kafka_that_does_not_answer(self, cache_dir, topic, tmp_path):
        topic.set_down(True)
        report = examine(cache_dir)
        with pytest.raises(FanlogError, match="Kafka could not be read"):
            examine_cache(
                cache_dir, MemoryPartition(topic), report, tmp_path / "work", patience_s=0.0
            )


def test_a_snapshot_that_tells_something_else(topic, nodes, tmp_path):
    """Written by an owner whose cache had lost a value that the entries tell of."""
    owner = nodes.owner("first", pace=UpkeepPace(checkpoint_bytes=1, pause_s=0.0))
    Author(owner).commit({ONE: [make_body(b"one")]}, state={b"a": b"1", b"b": b"2"})
    log = owner._replica.cache.log
    assert log is not None
    store = log._store
    log.change(lambda writing: writing.txn.delete(b"a", db=store.state), "damage")
    for _ in range(4):
        owner.renew([])
    owner.close()
    report = examine(nodes.cache_dir("first"))
    examine_cache(nodes.cache_dir("first"), MemoryPartition(topic), report, tmp_path / "work")
    texts = [one.text for one in report.findings if one.severity == "error"]
    assert any("the snapshot tells something else than the entries" in text for text in texts)
