"""Pieces of snapshots and old batches, from one folder into another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanlog.errors import DataLoss
from fanlog.log import folder
from fanlog.log.api import Bounds, Trim
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.replicated import emptying, filling
from fanlog.log.replicated.bodies import Carried, SnapshotPiece
from fanlog.log.writing import Writing
from fanlog.model.resources import PartitionId
from fanlog.testing.author import ALL_BYTES, ONE, THREE, TWO, Author, make_body
from fanlog.testing.damage import damage_batch, damage_state


@pytest.fixture
def source(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "source", syncs=False)
    author = Author(log)
    author.commit(
        {ONE: [make_body(b"a", b"b", b"c")], TWO: [make_body(b"x")]},
        state={b"a": b"1", b"b": b"2", b"\xff": b"3"},
    )
    author.commit({ONE: [make_body(b"d")]})
    yield log
    log.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(tmp_path / "target", syncs=False)
    yield log
    log.close()


def pieces(log: EmbeddedLog, bytes_max: int) -> list[SnapshotPiece]:
    found: list[SnapshotPiece] = []
    while not found or found[-1].until:
        first = found[-1].until if found else b""
        found.append(
            log.look(
                lambda store, txn: emptying.snapshot_piece(
                    store,
                    txn,
                    begin=0,
                    first=first,  # noqa: B023 - called at once
                    bytes_max=bytes_max,
                )
            )
        )
    return found


def carried(log: EmbeddedLog, *, up_to: int, first: bytes = b"", bytes_max: int = 1) -> Carried:
    return log.look(
        lambda store, txn: emptying.carried(
            store, txn, begin=0, first=first, up_to=up_to, bytes_max=bytes_max
        )
    )


def passed(log: EmbeddedLog, *, up_to: int) -> list[Carried]:
    found = [carried(log, up_to=up_to)]
    while found[-1].until:
        found.append(carried(log, up_to=up_to, first=found[-1].until))
    return found


def fill(log: EmbeddedLog, *entries: SnapshotPiece | Carried) -> None:
    def put(writing: Writing) -> None:
        for entry in entries:
            if isinstance(entry, Carried):
                filling.put_batches(writing, entry.batches)
            else:
                filling.put_piece(writing, entry)

    log.change(put, "the test's entries")


def batch_count(log: EmbeddedLog) -> int:
    count: int = log.look(lambda store, txn: txn.stat(store.batches)["entries"])
    return count


def same(one: EmbeddedLog, other: EmbeddedLog) -> bool:
    return all(
        [
            one.partitions() == other.partitions(),
            list(one.state()) == list(other.state()),
            one.positions(0, limit=99) == other.positions(0, limit=99),
        ]
    )


@pytest.mark.parametrize("bytes_max", [1, 25, 60, 1_000])
def test_pieces_and_a_pass_make_the_same_folder(
    source: EmbeddedLog, target: EmbeddedLog, bytes_max: int
):
    entries = [*pieces(source, bytes_max), *passed(source, up_to=2)]
    assert bytes_max > 1 or len(entries) == 5 + 3
    # Positions are those of commits that the log knows of.
    Author(target).commit()
    Author(target).commit()
    for entry in entries:
        fill(target, entry)
    assert target.partitions() == {ONE: Bounds(0, 4), TWO: Bounds(0, 1)}
    assert same(source, target)
    fill(target, *entries)
    assert same(source, target)


def test_pieces_leave_nothing_between_their_ends(source: EmbeddedLog, target: EmbeddedLog):
    Author(target).commit(
        {THREE: [make_body(b"old")], PartitionId(2**32 - 1): [make_body(b"old")]},
        state={b"": b"", b"aa": b"", b"z": b"", b"\xff\xff": b""}
        and {b"aa": b"", b"\xff\xff": b""},
    )
    Author(target).commit({ONE: [make_body(b"a", b"b", b"c")]})
    for piece in pieces(source, 1):
        fill(target, piece)
    assert target.partitions() == source.partitions()
    assert list(target.state()) == list(source.state())
    Author(target).collect_garbage()
    assert batch_count(target) == 1


def test_batches_without_a_row_go_when_the_rows_come(source: EmbeddedLog, target: EmbeddedLog):
    """They were carried, and their partition was dropped before its row was written."""
    fill(target, *passed(source, up_to=2))
    Author(source).commit(trims=[Trim(partition=TWO, before=0, dropped=True)])
    Author(source).collect_garbage()
    fill(target, *pieces(source, 1_000))
    Author(target).collect_garbage()
    assert target.partitions() == {ONE: Bounds(0, 4)}
    assert batch_count(target) == 2


def test_batches_below_the_start_go_when_the_rows_come(source: EmbeddedLog, target: EmbeddedLog):
    """The same, and their partition was trimmed."""
    fill(target, *passed(source, up_to=2))
    Author(source).commit(trims=[Trim(partition=ONE, before=3)])
    Author(source).collect_garbage()
    fill(target, *pieces(source, 1_000))
    Author(target).collect_garbage()
    assert target.partitions() == source.partitions()
    assert batch_count(target) == batch_count(source) == 2


def test_a_batch_that_is_trimmed_in_part_is_carried(source: EmbeddedLog, target: EmbeddedLog):
    Author(source).commit(trims=[Trim(partition=ONE, before=2)])
    for _ in range(2):
        Author(target).commit()
    fill(target, *pieces(source, 1_000), *passed(source, up_to=2))
    assert target.bounds(ONE) == Bounds(2, 4)
    read = [asyncio.run(log.read(ONE, 0, max_bytes=ALL_BYTES)) for log in (source, target)]
    assert read[0] == read[1]


def test_a_pass_ends_at_its_sequence(source: EmbeddedLog):
    (entry,) = passed(source, up_to=0)
    assert entry.batches == ()
    batches = [batch for entry in passed(source, up_to=1) for batch in entry.batches]
    assert [(batch.sequence, batch.partition) for batch in batches] == [(1, ONE), (1, TWO)]


def test_the_oldest_sequences_are_found(source: EmbeddedLog):
    for above, expected in ((-1, 1), (0, 1), (1, 2), (2, None)):
        found = source.look(
            lambda store, txn: emptying.first_sequence(store, txn, above=above)  # noqa: B023
        )
        assert found == expected


def test_damage_is_never_written_again(source: EmbeddedLog, tmp_path: Path):
    source.close()
    damage_batch(tmp_path / "source", ONE, 0)
    damage_state(tmp_path / "source", b"b")
    log = EmbeddedLog(tmp_path / "source", syncs=False)
    with pytest.raises(DataLoss, match="checksum"):
        passed(log, up_to=2)
    with pytest.raises(DataLoss, match="checksum"):
        pieces(log, 1_000)
    log.change(
        lambda writing: writing.txn.delete(folder.batch_key(ONE, 0), db=writing.store.batches),
        "the test's damage",
    )
    with pytest.raises(DataLoss, match="missing"):
        passed(log, up_to=2)
    log.close()
