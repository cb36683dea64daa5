"""Dead letters as values: a letter, a selection of them, the place to go on, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fanlog import times
from fanlog.core.redelivery import DeadLetter
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, ids, names
from fanlog.model.resources import Offset, PartitionId, Subscription
from fanlog.routing.candidate import Candidate

LEASED = "somebody has leased it"
ACKED = "it is acknowledged, or not there"
UNREADABLE = "it cannot be read"
NO_LETTER = "it is not a dead letter"
NO_TOPIC = "its original is gone, and so is its topic"
NOT_READ = "the subscription it failed on does not read its topic any more"


def attributes_of(
    subscription: Subscription,
    topic: str,
    letter: DeadLetter,
    partition: PartitionId,
    publish_time_ns: int,
) -> dict[str, str]:
    """The attributes that say where a dead letter came from: Google's four, then ours."""
    _, project, _, name = subscription.name.split("/", 3)
    return {
        attributes.LETTER_ATTEMPTS: str(letter.attempts),
        attributes.LETTER_SUBSCRIPTION: name,
        attributes.LETTER_PROJECT: project,
        attributes.LETTER_PUBLISH_TIME: times.of_ns(publish_time_ns, times.GOOGLE_UTC),
        attributes.LETTER_REASON: letter.reason,
        attributes.SOURCE_TOPIC: topic,
        attributes.SOURCE_ID: ids.message_id(partition, letter.offset),
    }


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter, and where it says that it came from.

    Its attributes are believed only if the broker sealed its batch as letters; a publisher may
    write any attributes.
    """

    partition: PartitionId
    offset: Offset
    message: Candidate
    publish_time_ns: int
    #: Whether its batch is sealed as letters, or is from before there were seals.
    is_believed: bool
    #: Whether its batch is sealed as letters of redriven copies.
    is_of_copy: bool = False
    is_leased: bool = False

    @property
    def id(self) -> str:
        return self.message.message_id

    @property
    def _said(self) -> Mapping[str, str]:
        """The attributes of a letter; none for a message that only looks like one."""
        return self.message.attributes if self.is_believed else {}

    @property
    def source_subscription(self) -> str:
        """Full name; empty if this is no dead letter."""
        said = self._said
        if attributes.LETTER_SUBSCRIPTION not in said or attributes.LETTER_PROJECT not in said:
            return ""
        return names.subscription_name(
            said[attributes.LETTER_PROJECT], said[attributes.LETTER_SUBSCRIPTION]
        )

    @property
    def source_topic(self) -> str:
        return self._said.get(attributes.SOURCE_TOPIC, "")

    @property
    def source_id(self) -> str:
        return self._said.get(attributes.SOURCE_ID, "")

    @property
    def original_id(self) -> str:
        """The id under which it was published at first: the source may be a copy itself."""
        known = self._said.get(attributes.ORIGINAL_ID, "") if self.is_of_copy else ""
        return known or self.source_id

    @property
    def source(self) -> tuple[PartitionId, Offset] | None:
        """Partition and offset of the original; None if it does not say."""
        found = ids.find_message_id(self.source_id)
        return None if found is None else (PartitionId(found[0]), found[1])

    @property
    def attempts(self) -> int:
        text = self._said.get(attributes.LETTER_ATTEMPTS, "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0

    @property
    def reason(self) -> str:
        return self._said.get(attributes.LETTER_REASON, "")


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """The unacknowledged letters that fit all of these."""

    #: Full name; empty for any.
    source_subscription: str = ""
    #: Part of the reason, in any case; empty for any.
    reason: str = ""
    #: When they became letters: from then on, and before.
    start_ns: int = 0
    end_ns: int | None = None
    #: A filter of the filter language on the letters as they are; None for any.
    matches: Callable[[Candidate], bool] | None = None

    def has(self, letter: Letter) -> bool:
        time_ns = letter.publish_time_ns
        if time_ns < self.start_ns or (self.end_ns is not None and time_ns >= self.end_ns):
            return False
        if self.source_subscription not in ("", letter.source_subscription):
            return False
        if self.reason.casefold() not in letter.reason.casefold():
            return False
        return self.matches is None or self.matches(letter.message)


@dataclass(slots=True)
class LetterGroup:
    """Letters that failed on one subscription for one reason."""

    source_subscription: str
    reason: str
    letters: int = 0
    first_ns: int = 0
    last_ns: int = 0
    #: The id of one of them.
    example: str = ""

    def add(self, letter: Letter) -> None:
        time_ns = letter.publish_time_ns
        self.first_ns = min(self.first_ns, time_ns) if self.letters else time_ns
        self.last_ns = max(self.last_ns, time_ns)
        self.letters += 1
        self.example = self.example or letter.id


@dataclass(frozen=True, slots=True)
class LetterPlace:
    """Where a request goes on: after which letter, and of those up to which commit."""

    sequence: int
    #: Of these and the partitions before, all offsets before `offset` are done.
    partition: PartitionId | None = None
    offset: Offset = 0

    def __str__(self) -> str:
        return f"{self.sequence}.{self.partition or 0}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> LetterPlace:
        """Raises InvalidArgument."""
        parts = text.split(".")
        if len(parts) != 3 or not all(p.isascii() and p.isdigit() and len(p) < 20 for p in parts):
            raise InvalidArgument(f"page_token: {names.shown(text)} is not a place")
        sequence, partition, offset = map(int, parts)
        return cls(sequence, PartitionId(partition), offset)


@dataclass(slots=True)
class LetterOutcome:
    """The letters that a request brought back, discarded or left as they are."""

    reopened: int = 0
    copied: int = 0
    discarded: int = 0
    #: Ids of letters that stay as they are, and why.
    skipped: list[tuple[str, str]] = field(default_factory=list)
    #: Of a request that was done before: how many; it is not known which.
    skipped_before: int = 0
    #: Where to go on; None when there is nothing more.
    next: LetterPlace | None = None
