"""The server's settings about resources: the region it stands in, and dead letters by default.

With `dead_letter_default` a subscription that is made without a dead letter policy gets one, as if
it had the label `fanlog-dead-letter: auto`: a topic of its own and a subscription on it. These stay
without: subscriptions with the label `fanlog-dead-letter: none`; exports and forwards, which fail
for reasons of the broker and never because of a message; those that deliver at most once; those of
the service itself; and those on a dead letter topic, for letters of letters would be a chain
without an end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fanlog.errors import InvalidArgument
from fanlog.model import endpoints, names, specs
from fanlog.model.attributes import LABEL_DEAD_LETTER, LABEL_DELIVERY
from fanlog.model.resources import AT_MOST_ONCE, DeadLetterDefault, DeadLetterPolicy, Subscription
from fanlog.model.specs import SubscriptionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRules:
    """Settings of the server that resources are made by."""

    #: Where the server stands; empty for nowhere in particular.
    region: str = ""
    #: Whether subscriptions without a dead letter policy get one when they are made.
    dead_letter_default: DeadLetterDefault = "none"

    def dead_letter_of(
        self, spec: SubscriptionSpec, others: Iterable[Subscription]
    ) -> DeadLetterPolicy | None:
        """The policy that a subscription gets which asks for none.

        Args:
            spec: The subscription that is to be made.
            others: All there are, to know a dead letter topic by.
        """
        if not self._is_due(spec) or self.why_without(spec) or _reads_letters(spec, others):
            return None
        return DeadLetterPolicy(dead_letter_topic=names.dead_letter_topic_of(spec.name))

    def is_default(self, spec: SubscriptionSpec, present: Subscription) -> bool:
        """Whether a subscription, asked for without a policy, has the one it got by default."""
        if present.dead_letter is None or not self._is_due(spec) or self.why_without(spec):
            return False
        return present.dead_letter.dead_letter_topic == names.dead_letter_topic_of(spec.name)

    def why_without(self, spec: SubscriptionSpec) -> str:
        """Why a subscription has no dead letters although the default is that it has."""
        if not self._is_due(spec):
            return ""
        try:
            own = names.dead_letter_topic_of(spec.name)
        except InvalidArgument as error:
            return f"it has no dead letters, which are the server's default: {error.message}"
        if specs.reads(spec.topic, own):
            return (
                "it has no dead letters, which are the server's default: it would read its own "
                f"dead letter topic, {names.shown(own)}"
            )
        return ""

    def _is_due(self, spec: SubscriptionSpec) -> bool:
        is_taken = spec.dead_letter is not None or LABEL_DEAD_LETTER in spec.labels
        if spec.labels.get(LABEL_DELIVERY) == AT_MOST_ONCE:
            return False
        is_export = spec.table is not None or spec.files is not None
        if self.dead_letter_default == "none" or is_taken or is_export:
            return False
        if spec.push is not None and endpoints.forward_topic(spec.push.endpoint, spec.name):
            return False
        projects = (names.project_of(spec.name), names.project_of(spec.topic))
        return names.SYSTEM_PROJECT not in projects


def _reads_letters(spec: SubscriptionSpec, others: Iterable[Subscription]) -> bool:
    """Whether a subscription is on a dead letter topic. One on a pattern reads more than that."""
    if spec.topic.endswith(names.DEAD_LETTER_SUFFIX):
        return True
    policies = (other.dead_letter for other in others)
    return any(policy is not None and policy.dead_letter_topic == spec.topic for policy in policies)
