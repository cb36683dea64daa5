"""Which revisions subscriptions ask for (`fanlog-schema-revision`): checked before they are kept.

A subscription asks for a revision of the schema of its topic; neither goes while it does. Only the
schema as a whole may be deleted, as it may while topics have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fanlog.core.catalog import Catalog
from fanlog.errors import FailedPrecondition
from fanlog.model.attributes import LABEL_SCHEMA_REVISION
from fanlog.model.resources import SchemaRevision, Subscription, Topic


def check(catalog: Catalog, topic_name: str, labels: Mapping[str, str]) -> None:
    """Check the revision that a subscription on a topic asks for, if it does.

    Raises:
        FailedPrecondition: The topic has no schema.
        SchemaNotFound: Its schema has no such revision.
        TopicNotFound: There is no such topic.
    """
    revision_id = labels.get(LABEL_SCHEMA_REVISION)
    if revision_id is None:
        return
    topic = catalog.topic(topic_name)
    settings = topic.schema_settings
    schema = None
    if settings is not None and settings.schema_id is not None:
        schema = catalog.schemas.by_id(settings.schema_id)
    if schema is None:
        why = "has no schema" if settings is None else "has one that was deleted"
        raise FailedPrecondition(
            f"label {LABEL_SCHEMA_REVISION}: topic {topic.name!r} {why}, so there is no revision "
            "to ask for"
        )
    catalog.schemas.revision(schema, revision_id)


def check_topic(catalog: Catalog, before: Topic, after: Topic) -> None:
    """Check that a topic keeps the schema whose revisions its subscriptions ask for.

    Raises:
        FailedPrecondition: It would not; names the subscription.
    """
    settings, kept = before.schema_settings, after.schema_settings
    if settings is None or (kept is not None and kept.schema_id == settings.schema_id):
        return
    for subscription in _asking(catalog, before):
        raise FailedPrecondition(
            f"schema_settings: subscription {subscription.name!r} asks for revision "
            f"{subscription.schema_revision} of {settings.schema!r}; remove its label "
            f"{LABEL_SCHEMA_REVISION} first"
        )


def check_unasked(catalog: Catalog, topic: Topic, revision: SchemaRevision) -> None:
    """Check that no subscription on a topic asks for a revision.

    Raises:
        FailedPrecondition: One does; names it.
    """
    for subscription in _asking(catalog, topic):
        if subscription.schema_revision in (revision.id, str(revision.number)):
            raise FailedPrecondition(
                f"subscription {subscription.name!r} asks for revision {revision.id}; change its "
                f"label {LABEL_SCHEMA_REVISION} first"
            )


def _asking(catalog: Catalog, topic: Topic) -> Iterator[Subscription]:
    for name in catalog.subscription_names_of(topic.id, ""):
        subscription = catalog.subscription(name)
        if subscription.schema_revision:
            yield subscription
