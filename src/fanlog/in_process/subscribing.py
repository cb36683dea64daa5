"""Subscribing: the resources that a callback needs are made, and its consumer begins.

Lives on the loop of the core.
"""

from __future__ import annotations

from collections.abc import Callable

from fanlog.broker.broker import Broker as Core
from fanlog.errors import AlreadyExists, TopicNotFound
from fanlog.in_process.options import changes_to
from fanlog.model import names
from fanlog.model.resources import Subscription
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import SubscriptionUpdate


async def ensure_topic(core: Core, name: str, *, creates: bool) -> None:
    """Make a topic that does not exist, where that is allowed.

    Raises:
        TopicNotFound: It does not exist, and is not to be made.
    """
    if core.hard.catalog.find_topic(name) is not None:
        return
    if not creates:
        raise TopicNotFound(
            f"topic {name!r} does not exist; make it with create_topic, or open the broker with "
            "create_topics=True"
        )
    try:
        await core.topics.create(TopicSpec(name=name))
    except AlreadyExists:
        # Another publish made it meanwhile.
        await core.ledger.sync()


async def ensure_subscription(
    core: Core, spec: SubscriptionSpec, *, creates_topics: bool, in_use: Callable[[str], bool]
) -> Subscription:
    """Make a subscription, or give the one that exists the settings that are asked for.

    Raises:
        TopicNotFound: A topic of it does not exist, and is not to be made.
        FailedPrecondition: One exists that cannot become what is asked for.
    """
    catalog = core.hard.catalog
    if not spec.is_pattern:
        await ensure_topic(core, spec.topic, creates=creates_topics)
    if spec.dead_letter is not None and not spec.makes_dead_letter_topic:
        await ensure_topic(core, spec.dead_letter.dead_letter_topic, creates=creates_topics)
    if not catalog.has_subscription(spec.name):
        return await core.subscriptions.create(spec)
    core.access.check_pull(spec.name)
    present = catalog.subscription(spec.name)
    changes = changes_to(present, spec)
    if not changes:
        await core.ledger.sync()
        return present
    if in_use(spec.name):
        raise AlreadyExists(
            f"name: {names.shown(spec.name)} is used by another callback of this program, with "
            f"other settings ({', '.join(sorted(changes))})"
        )
    return await core.subscriptions.update(SubscriptionUpdate(name=spec.name, changes=changes))
