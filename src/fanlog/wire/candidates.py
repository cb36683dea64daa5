"""Stored messages as filters see them."""

from __future__ import annotations

from collections.abc import Iterator

from fanlog.log.batch import Batch
from fanlog.model.ids import message_id
from fanlog.routing.candidate import Candidate, FilterNeeds
from fanlog.wire import types


class _Everything:
    needs_message = needs_attributes = needs_payload = True


EVERYTHING: FilterNeeds = _Everything()


def candidates(
    batch: Batch, first: int, end: int, topic: str, needs: FilterNeeds = EVERYTHING
) -> Iterator[Candidate]:
    """The messages of a batch from index `first` to before `end`, as far as they are needed."""
    publish_time_us = batch.publish_time_ns // 1_000
    offsets = range(batch.base_offset + first, batch.base_offset + end)
    if not needs.needs_message:
        for offset in offsets:
            yield Candidate(
                {},
                publish_time_us=publish_time_us,
                topic=topic,
                message_id=message_id(batch.partition, offset),
            )
        return
    content = batch.content[batch.starts[first] : batch.starts[end]]
    # The content is a run of `messages` fields of a PublishRequest, tags and lengths included.
    messages = types.PublishRequest.FromString(content).messages
    reads_attributes, reads_data = needs.needs_attributes, needs.needs_payload
    for offset, message in zip(offsets, messages, strict=True):
        yield Candidate(
            {**message.attributes, **batch.attributes} if reads_attributes else {},
            message.data if reads_data else b"",
            ordering_key=message.ordering_key,
            publish_time_us=publish_time_us,
            topic=topic,
            message_id=message_id(batch.partition, offset),
        )
