"""Damage planted in the data folder of a stopped broker, as a bad disk would do it."""

from __future__ import annotations

from pathlib import Path

from fanlog.log import folder
from fanlog.model.resources import Offset, PartitionId


def damage_batch(
    data_dir: Path, partition: PartitionId, base_offset: Offset, *, index: int = -1
) -> None:
    """Flip a bit in byte `index` of the batch stored at `base_offset`."""
    _flip(data_dir, _stored(data_dir, "batches", folder.batch_key(partition, base_offset)), index)


def damage_state(data_dir: Path, key: bytes, *, index: int = -1) -> None:
    """Flip a bit in byte `index` of the envelope stored under a key of the hard state."""
    _flip(data_dir, _stored(data_dir, "state", key), index)


def damage_partition(data_dir: Path, partition: PartitionId, *, index: int = -1) -> None:
    """Flip a bit in byte `index` of a partition's row."""
    _flip(data_dir, _stored(data_dir, "partitions", folder.partition_key(partition)), index)


def damage_meta(data_dir: Path, key: bytes, *, index: int = -1) -> None:
    """Flip a bit in byte `index` of one of the log's facts about itself."""
    _flip(data_dir, _stored(data_dir, "meta", key), index)


def _stored(data_dir: Path, database: str, key: bytes) -> bytes:
    store = folder.open_store(data_dir, readonly=True)
    try:
        with store.env.begin() as txn:
            value = txn.get(key, db=getattr(store, database))
    finally:
        store.close()
    assert value is not None, f"nothing is stored in {database} under {key.hex()}"
    return value


def _flip(data_dir: Path, value: bytes, index: int) -> None:
    """Every copy: LMDB leaves older ones on pages it has not used again yet."""
    path = data_dir / folder.DATA_NAME
    content = bytearray(path.read_bytes())
    index %= len(value)
    position = content.find(value)
    assert position >= 0, "the value is not in one piece in the file"
    while position >= 0:
        content[position + index] ^= 1
        position = content.find(value, position + 1)
    path.write_bytes(content)
