"""Stored messages as filters see them."""

from __future__ import annotations

from collections.abc import Iterator

from fanlog.log.batch import Batch
from fanlog.routing.candidate import Candidate
from fanlog.wire import types
from fanlog.wire.publish import message_id


def candidates(batch: Batch, first: int, end: int, topic: str) -> Iterator[Candidate]:
    """The messages of a batch from index `first` to before `end`."""
    content = batch.content[batch.starts[first] : batch.starts[end]]
    publish_time_us = batch.publish_time_ns // 1_000
    # What is stored is a run of `messages` fields of a PublishRequest, tags and lengths included.
    messages = types.PublishRequest.FromString(content).messages
    for offset, message in enumerate(messages, batch.base_offset + first):
        attributes = message.attributes
        yield Candidate(
            {**attributes, **batch.attributes} if batch.attributes else dict(attributes),
            message.data,
            ordering_key=message.ordering_key,
            publish_time_us=publish_time_us,
            topic=topic,
            message_id=message_id(batch.partition, offset),
        )
