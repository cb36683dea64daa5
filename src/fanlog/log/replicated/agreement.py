"""Whether Kafka, the snapshots in it and the cache of a node tell the same story.

All of the partition is read, as a new node would, up to where the cache is; the two are compared,
and the rest is read as well. The node may be running.
"""

from __future__ import annotations

import json
from pathlib import Path

from fanlog.errors import ConfigError, DataLoss, Unavailable
from fanlog.log import folder
from fanlog.log.envelope import EnvelopeDamaged
from fanlog.log.folder import Store
from fanlog.log.replicated.comparing import Side, compare
from fanlog.log.replicated.driving import StepsDriver
from fanlog.log.replicated.facts import StoryFacts, parse_facts
from fanlog.log.replicated.partition import OffsetGone, Partition, PartitionUnavailable
from fanlog.log.replicated.rebuilding import Rebuilt
from fanlog.log.replicated.story import StoryBroken
from fanlog.log.report import FolderReport
from fanlog.log.stored_batches import Transaction


def examine_cache(
    cache_dir: Path,
    partition: Partition,
    report: FolderReport,
    work_dir: Path,
    *,
    patience_s: float = 60.0,
) -> None:
    """Compare a node's folder with the partition; what is found goes into the report.

    Args:
        cache_dir: The folder of the node.
        partition: That of the cluster.
        report: Of the folder by itself, from `fanlog.log.doctor`.
        work_dir: New or empty; it gets a cache as large as the log.
        patience_s: For a partition that does not answer.

    Raises:
        ConfigError: The folder is no cache, or that of another cluster.
        Unavailable: The partition does not answer, or was trimmed meanwhile.
        DiskFull, CommitFailed: The working folder cannot hold a cache.
    """
    require_cluster(cache_dir, partition.cluster)
    driver = StepsDriver(partition, patience_s=patience_s)
    store = folder.open_store(folder.log_place(cache_dir), readonly=True)
    try:
        rebuilt = Rebuilt(work_dir, driver)
        try:
            _Examination(store, rebuilt, report).run()
        finally:
            rebuilt.close()
    except (PartitionUnavailable, OffsetGone) as error:
        raise Unavailable(f"Kafka could not be read to its end: {error}; try again") from error
    except StoryBroken as error:
        report.add("error", f"Kafka: {error}")
    except DataLoss as error:
        report.add("error", f"what Kafka tells cannot be stored: {error}")
    except (EnvelopeDamaged, ValueError, *folder.UNREADABLE) as error:
        report.add("error", f"the cache: {error}")
    finally:
        store.close()


def require_cluster(cache_dir: Path, cluster: str) -> None:
    """Raises ConfigError: The folder is no cache of that cluster."""
    if not folder.is_cache(cache_dir):
        raise ConfigError(
            f"the folder {cache_dir} is that of a single server, and has nothing to do with Kafka: "
            "leave --kafka and --cluster out (and FANLOG_KAFKA, FANLOG_CLUSTER)"
        )
    try:
        name = json.loads((cache_dir / folder.CACHE_NAME).read_bytes())["cluster"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder.CACHE_NAME} in {cache_dir} cannot be read: the node will begin anew"
        ) from error
    if name != cluster:
        raise ConfigError(
            f"the folder {cache_dir} is the cache of the cluster {name!r}, and not of {cluster!r}"
        )


class _Examination:
    def __init__(self, store: Store, rebuilt: Rebuilt, report: FolderReport) -> None:
        self._store = store
        self._rebuilt = rebuilt
        self._report = report

    def run(self) -> None:
        rebuilt, report, bounds = self._rebuilt, self._report, self._rebuilt.bounds
        with self._store.env.begin(buffers=True) as txn:
            facts = _read_facts(self._store, txn)
        if facts.last_offset < bounds.start:
            report.add(
                "warning",
                f"the cache ends at offset {facts.last_offset}, and Kafka begins at "
                f"{bounds.start}: the node will begin anew when it is started",
            )
        elif facts.next_offset > bounds.end:
            report.add(
                "error",
                f"the cache has what Kafka has not: it is at offset {facts.next_offset}, and Kafka "
                f"ends at {bounds.end}; Kafka lost records that were acknowledged",
            )
        else:
            rebuilt.read_to(facts.next_offset)
            self._compare()
        rebuilt.read_to(max(bounds.end, rebuilt.facts.next_offset))
        for offset in rebuilt.wrong_pieces:
            text = "the snapshot tells something else than the entries before it"
            report.add("error", f"Kafka: offset {offset}: {text}")
        if rebuilt.last_stray is not None:
            report.add(
                "warning",
                f"Kafka: {rebuilt.stray_count} records are no entries of the cluster and were "
                f"passed over, the last at offset {rebuilt.last_stray.offset}: "
                f"{rebuilt.last_stray.void}; nobody but its nodes should write to the topic",
            )
        known = rebuilt.facts
        if not rebuilt.is_whole:
            report.add("error", "Kafka: no whole snapshot: a new node cannot begin there")
        report.add(
            "info",
            f"Kafka: offsets {bounds.start} to {known.next_offset - 1} read, up to commit "
            f"{known.sequence} of term {known.term}, chain {known.chain.hex()}; "
            f"{rebuilt.checked_pieces} pieces of snapshots compared",
        )

    def _compare(self) -> None:
        """With the cache as it is by now: a node that runs is further than when it was asked."""
        rebuilt, report = self._rebuilt, self._report
        with self._store.env.begin(buffers=True) as txn:
            facts = _read_facts(self._store, txn)
            rebuilt.read_to(facts.next_offset)
            if _story(facts) != _story(rebuilt.facts):
                report.add(
                    "error",
                    f"at offset {facts.next_offset} the cache has another story than Kafka "
                    f"(chain {facts.chain.hex()}, and Kafka {rebuilt.facts.chain.hex()})",
                )
                return
            if not rebuilt.is_whole:
                report.add("info", f"offset {facts.next_offset}: no snapshot in Kafka is whole yet")
                return
            cache = Side("the cache", self._store, txn)
            compared = rebuilt.cache.look(
                lambda store, own: compare(cache, Side("Kafka", store, own))
            )
        for text in compared.differences:
            report.add("error", text)
        if not compared.differences:
            report.add(
                "info",
                f"the cache and Kafka agree at offset {facts.next_offset}: "
                f"{compared.batch_count} batches of {compared.partition_count} partitions, "
                f"{compared.state_count} records of state",
            )


def _read_facts(store: Store, txn: Transaction) -> StoryFacts:
    content = folder.get_meta(store, txn, folder.META_REPLICA)
    if content is None:
        raise ValueError("it does not say how far it is")
    return parse_facts(content)


def _story(facts: StoryFacts) -> tuple[object, ...]:
    """What does not depend on where a reader began."""
    return (
        *(facts.identity, facts.next_offset, facts.term, facts.nonce, facts.successor),
        *(facts.sequence, facts.publish_time_ns, facts.chain, facts.total_bytes),
    )
