"""The order of a topic, given to messages on their way in. Most topics leave that to senders."""

from __future__ import annotations

from fanlog.broker.ports import Contents
from fanlog.errors import Unimplemented
from fanlog.log.batch import Body
from fanlog.model.attributes import LABEL_ORDERING
from fanlog.model.resources import DEFAULT_ORDERING, Topic


class Keying:
    """Gives messages their keys; knows how messages are written by `contents`."""

    def __init__(self, contents: Contents | None) -> None:
        self._contents = contents

    def keyed(self, topic: Topic, body: Body) -> Body:
        """The messages of a publish as the topic has them.

        Raises:
            InvalidArgument: A message cannot stand in the order of the topic.
        """
        if topic.ordering == DEFAULT_ORDERING:
            return body
        if self._contents is None:
            raise Unimplemented(f"label {LABEL_ORDERING}: this broker does not read messages")
        return self._contents.keyed(body, topic.ordering)
