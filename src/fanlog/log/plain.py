"""Plain batches: made of a body without encoding it, where values need not be bytes.

A batch that lives in memory alone is the same as one that was stored and read back, and costs
neither. It becomes a value when somebody asks for bytes.
"""

from __future__ import annotations

from array import array

from fanlog import limits
from fanlog.log.batch import Batch, Body, batch_bytes, encode
from fanlog.model.resources import Offset, PartitionId


def plain_batch(
    body: Body,
    *,
    sequence: int,
    topic: int,
    partition: PartitionId,
    base_offset: Offset,
    publish_time_ns: int,
) -> Batch | None:
    """The batch that `decode` makes of what `encode` makes of one body, without either.

    None for a body that has something beside its messages and their keys, or would be cut.
    """
    if body.attributes or body.terms is not None or body.seal.addressee:
        return None
    batch = Batch(
        topic=topic,
        partition=partition,
        base_offset=base_offset,
        sequence=sequence,
        publish_time_ns=publish_time_ns,
        starts=array("I", body.starts),
        key_hashes=None if body.key_hashes is None else array("Q", body.key_hashes),
        attributes=body.attributes,
        content=body.content,
        seal=body.seal,
    )
    return batch if plain_bytes(batch) <= limits.BATCH_BYTES_MAX else None


def plain_bytes(batch: Batch) -> int:
    """The length of a batch by `plain_batch` when it is stored."""
    return batch_bytes(len(batch.content), batch.count, batch.key_hashes is not None)


def encode_plain(batch: Batch) -> bytes:
    """The value of a batch by `plain_batch`."""
    assert batch.seal is not None
    body = Body(
        content=batch.content, starts=batch.starts, key_hashes=batch.key_hashes, seal=batch.seal
    )
    [(_, value)] = encode(
        [body],
        sequence=batch.sequence,
        topic=batch.topic,
        partition=batch.partition,
        base_offset=batch.base_offset,
        publish_time_ns=batch.publish_time_ns,
    )
    return value
