"""`--resources FILE`: schemas, topics, subscriptions, schedules and alerts, to be there at start.

    [schemas.order]
    type = "AVRO"
    definition_file = "order.avsc"

    [topics.orders]
    labels = { team = "shop" }
    message_retention_duration = "86400s"
    schema_settings = { schema = "order", encoding = "JSON" }

    [subscriptions.billing]
    topic = "orders"
    ack_deadline_seconds = 30
    dead_letter_policy = { dead_letter_topic = "orders-dead", max_delivery_attempts = 5 }

    [subscriptions.large]
    topic = "orders.#"
    filter = "payload.amount >= 1000"

The fields are those of Google's JSON form of Topic and Subscription, snake_case or camelCase; YAML
says the same in its own way. Those of a schema are in `schema_resources`, of a schedule in
`schedule_resources`, of an alert in `alert_resources`. Short names belong to the
default project. A resource that is missing is made; one that is there and differs is left as it
is, and the difference is logged.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import TypeVar

from google.protobuf import json_format

from fanlog.broker.broker import Broker
from fanlog.core.roles import CustomRole, check_role
from fanlog.errors import ConfigError, FanlogError, InvalidArgument
from fanlog.model import names
from fanlog.model.alerts import Alert
from fanlog.model.resources import SchemaSettings, Subscription, Topic
from fanlog.model.schedules import Schedule
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.server.alert_resources import find_alert, read_alert
from fanlog.server.schedule_resources import find_schedule, read_schedule
from fanlog.server.schema_resources import (
    SchemaResource,
    create_schema,
    find_schema,
    read_schema,
)
from fanlog.wire import resources as wire
from fanlog.wire import types

log = logging.getLogger("fanlog.resources")

Resource = TypeVar("Resource", types.Topic, types.Subscription)

_SECTIONS = "schemas, topics, subscriptions, schedules, alerts and roles"
#: Fields whose values are too long for a line of the log.
_LONG = frozenset({"definition", "data"})
#: More than this is a mistake; a subscription with everything set has about thirty.
_VALUES_MAX = 500_000

#: Errors that TOML and YAML raise besides their own: for values nested too deep, and, YAML, for a
#: value that does not fit its tag.
_MALFORMED = (
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    ArithmeticError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Resources:
    #: The file they stand in.
    path: Path
    schemas: tuple[SchemaResource, ...]
    topics: tuple[TopicSpec, ...]
    subscriptions: tuple[SubscriptionSpec, ...]
    roles: tuple[CustomRole, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    alerts: tuple[Alert, ...] = ()


def read_resources(path: Path, project: str) -> Resources:
    """Read and validate a resources file.

    Raises:
        ConfigError: Names the file, the resource and the mistake in it.
    """
    content = _load(path)
    known = {"schemas", "topics", "subscriptions", "schedules", "alerts", "roles"}
    unknown = content.keys() - known
    if unknown:
        raise ConfigError(
            f"{path}: {min(map(str, unknown))!r} is not known; a resources file has {_SECTIONS}"
        )
    schemas = [
        _read_schema(path, str(name), value, project)
        for name, value in _section(path, content, "schemas").items()
    ]
    topics = [
        _read_topic(path, name, value, project)
        for name, value in _section(path, content, "topics").items()
    ]
    subscriptions = [
        _read_subscription(path, name, value, project)
        for name, value in _section(path, content, "subscriptions").items()
    ]
    roles = [
        _read_role(path, str(name), value)
        for name, value in _section(path, content, "roles").items()
    ]
    schedules = [
        _read_schedule(path, str(name), value, project)
        for name, value in _section(path, content, "schedules").items()
    ]
    alerts = [
        _read_alert(path, str(name), value, project)
        for name, value in _section(path, content, "alerts").items()
    ]
    return Resources(
        path,
        tuple(schemas),
        tuple(topics),
        tuple(subscriptions),
        tuple(roles),
        tuple(schedules),
        tuple(alerts),
    )


async def ensure_resources(broker: Broker, wanted: Resources) -> None:
    """Make missing resources, schemas first; log differences. Safe to repeat.

    Raises:
        ConfigError: Something cannot be made, such as a subscription without its topic; names the
            file and the resource.
    """
    await broker.iam.put_roles(wanted.roles)
    for schema in wanted.schemas:
        present_schema = find_schema(broker, schema.name)
        if present_schema is None:
            with _naming(wanted.path, f"schema {schema.name!r}"):
                await create_schema(broker, schema)
            log.info("action=resource_created schema=%s", schema.name)
        else:
            _log_differences("schema", schema, present_schema)
    catalog = broker.hard.catalog
    for topic in wanted.topics:
        existing = catalog.find_topic(topic.name)
        if existing is None:
            with _naming(wanted.path, f"topic {topic.name!r}"):
                await broker.topics.create(topic)
            log.info("action=resource_created topic=%s", topic.name)
        else:
            _log_differences("topic", _with_revision_ids(broker, topic), existing)
    for subscription in wanted.subscriptions:
        if not catalog.has_subscription(subscription.name):
            found: list[str] = []
            with _naming(wanted.path, f"subscription {subscription.name!r}"):
                created = await broker.subscriptions.create(subscription, found)
            log.info("action=resource_created subscription=%s", subscription.name)
            for hint in [*found, *broker.hints.of_new(created)]:
                log.warning("action=hint subscription=%s %s", created.name, hint)
        else:
            present = catalog.subscription(subscription.name)
            if broker.rules.is_default(subscription, present):
                subscription = replace(subscription, dead_letter=present.dead_letter)
            _log_differences("subscription", subscription, present)
    for schedule in wanted.schedules:
        await _ensure_schedule(broker, wanted.path, schedule)
    for alert in wanted.alerts:
        await _ensure_alert(broker, wanted.path, alert)


async def _ensure_schedule(broker: Broker, path: Path, wanted: Schedule) -> None:
    present = find_schedule(broker, wanted)
    if present is None:
        with _naming(path, f"schedule {wanted.name!r}"):
            await broker.schedules.create(wanted)
        log.info("action=resource_created schedule=%s", wanted.name)
    else:
        _log_differences("schedule", wanted, present)


async def _ensure_alert(broker: Broker, path: Path, wanted: Alert) -> None:
    present = find_alert(broker, wanted)
    if present is None:
        with _naming(path, f"alert {wanted.name!r}"):
            await broker.alerts.create(wanted)
        log.info("action=resource_created alert=%s", wanted.name)
    else:
        _log_differences("alert", wanted, present)


def _with_revision_ids(broker: Broker, topic: TopicSpec) -> TopicSpec:
    """The topic with the revisions of its schema named by their ids, as the catalog has them."""
    settings = topic.schema_settings
    if settings is None:
        return topic
    try:
        bound = broker.hard.catalog.schemas.bind(settings)
    except FanlogError:
        # Then it differs anyway.
        return topic
    return replace(topic, schema_settings=replace(bound, schema_id=None))


def _log_differences(
    kind: str,
    wanted: SchemaResource | TopicSpec | SubscriptionSpec | Schedule | Alert,
    present: SchemaResource | Topic | Subscription | Schedule | Alert,
) -> None:
    for part in fields(wanted):
        asked, there = getattr(wanted, part.name), _as_asked(getattr(present, part.name))
        if asked != there:
            log.warning(
                "action=resource_differs %s=%s field=%s wanted=%r present=%r",
                kind,
                wanted.name,
                part.name,
                asked if part.name not in _LONG else names.shown(str(asked)),
                there if part.name not in _LONG else names.shown(str(there)),
            )


def _as_asked(value: object) -> object:
    """A value of the catalog as a file would ask for it."""
    if isinstance(value, SchemaSettings):
        return replace(value, schema=value.schema_shown, schema_id=None)
    return value


@contextmanager
def _naming(path: Path, what: str) -> Iterator[None]:
    """Say of an error in which file and of which resource it is."""
    try:
        yield
    except (FanlogError, json_format.ParseError) as error:
        raise ConfigError(f"{path}: {what}: {error}") from error


def _load(path: Path) -> Mapping[object, object]:
    # Imported here: few servers have such a file.
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        content: object = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"resources file {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, *_MALFORMED) as error:
        raise ConfigError(f"resources file {path} is malformed: {error}") from error
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: a resources file is a table with {_SECTIONS}")
    _check_extent(path, content)
    return content


def _check_extent(path: Path, content: object) -> None:
    """With YAML's aliases a few lines stand for any number of values, or for themselves."""
    waiting, count = [content], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count > _VALUES_MAX:
            raise ConfigError(f"{path}: it has more than {_VALUES_MAX} values, aliases written out")
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)


def _section(path: Path, content: Mapping[object, object], name: str) -> Mapping[object, object]:
    section = content.get(name) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{path}: {name} must be a table of names")
    return section


def _table(path: Path, what: str, value: object) -> Mapping[str, object]:
    # Keys of YAML may be no text; there is no field of such a name.
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {what} must be a table of fields")
    return value


def _read_schema(path: Path, name: str, value: object, project: str) -> SchemaResource:
    what = f"schema {name!r}"
    table = _table(path, what, value)
    with _naming(path, what):
        return read_schema(path.parent, _full(name, "schemas", project), table)


def _read_role(path: Path, name: str, value: object) -> CustomRole:
    """A role of the operator's own: the file is the one place that says what it may do."""
    what = f"role {name!r}"
    table = _table(path, what, value)
    permissions = table.get("permissions")
    if table.keys() != {"permissions"} or not isinstance(permissions, list):
        raise ConfigError(f"{path}: {what} has a list of permissions, and nothing else")
    with _naming(path, what):
        return check_role(CustomRole(name=name, permissions=tuple(map(str, permissions))))


def _read_topic(path: Path, name: object, value: object, project: str) -> TopicSpec:
    what = f"topic {name!r}"
    table = _table(path, what, {} if value is None else value)
    with _naming(path, what):
        topic = _parse(types.Topic(), _full(str(name), "topics", project), table)
        if topic.schema_settings.schema:
            schema = _full(topic.schema_settings.schema, "schemas", project)
            topic.schema_settings.schema = schema
        return wire.topic_spec(topic)


def _read_subscription(path: Path, name: object, value: object, project: str) -> SubscriptionSpec:
    what = f"subscription {name!r}"
    table = _table(path, what, {} if value is None else value)
    with _naming(path, what):
        full_name = _full(str(name), "subscriptions", project)
        subscription = _parse(types.Subscription(), full_name, table)
        subscription.topic = _full(subscription.topic, "topics", project)
        dead_letter = subscription.dead_letter_policy.dead_letter_topic
        if dead_letter:
            full = _full(dead_letter, "topics", project)
            subscription.dead_letter_policy.dead_letter_topic = full
        return wire.subscription_spec(subscription)


def _read_schedule(path: Path, name: str, value: object, project: str) -> Schedule:
    what = f"schedule {name!r}"
    table = _table(path, what, value)
    with _naming(path, what):
        plain = {key: _plain(part) for key, part in table.items()}
        topic = plain.get("topic")
        if not isinstance(topic, str):
            raise InvalidArgument("topic: a name is required")
        full = _full(topic, "topics", project)
        return read_schedule(_full(name, "schedules", project), plain, full)


def _read_alert(path: Path, name: str, value: object, project: str) -> Alert:
    what = f"alert {name!r}"
    table = _table(path, what, value)
    with _naming(path, what):
        plain = {key: _plain(part) for key, part in table.items()}
        subscription = plain.get("subscription", "")
        if not isinstance(subscription, str):
            raise InvalidArgument("subscription: must be the name of a subscription")
        full = subscription and _full(subscription, "subscriptions", project)
        return read_alert(_full(name, "alerts", project), plain, full)


def _parse(message: Resource, name: str, table: Mapping[str, object]) -> Resource:
    """Fill a message from its table; its name is the one that the table stands under."""
    json_format.ParseDict({key: _plain(value) for key, value in table.items()}, message)
    if message.name not in ("", name):
        raise InvalidArgument(f"name: {message.name!r} is not the name it stands under")
    message.name = name
    return message


def _plain(value: object) -> object:
    """Times as text: TOML and YAML read those that stand without quotes for themselves."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.isoformat() if isinstance(value, date) else value


def _full(name: str, collection: str, project: str) -> str:
    return name if "/" in name else f"projects/{project}/{collection}/{name}"
