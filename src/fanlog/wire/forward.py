"""Copies of stored messages with attributes added, for dead letter topics and forwards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fanlog.log.batch import Batch, Body
from fanlog.model.attributes import PASSING
from fanlog.wire import types
from fanlog.wire.publish import build_body


def compose(
    messages: Sequence[tuple[Batch, int, Mapping[str, str]]], without: Collection[str] = ()
) -> Body:
    """A body of copies; each message is given by its batch and index, with attributes to add.

    Of the attributes that a message has, those that `without` names are left out, and those that
    say when it was to be delivered: that is over for a message that was.
    """
    return build_body(_copied(batch, index, added, without) for batch, index, added in messages)


def _copied(
    batch: Batch, index: int, added: Mapping[str, str], without: Collection[str]
) -> tuple[bytes, Mapping[str, str], str]:
    field = batch.content[batch.starts[index] : batch.starts[index + 1]]
    # A stored message is one `messages` field of a PublishRequest, tag and length included.
    message = types.PublishRequest.FromString(field).messages[0]
    attributes = {**message.attributes, **batch.attributes}
    kept = {
        name: value
        for name, value in attributes.items()
        if name not in without and name not in PASSING
    }
    return message.data, {**kept, **added}, message.ordering_key
