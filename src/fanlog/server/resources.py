"""`--resources FILE`: schemas, topics and subscriptions that are to be there at start.

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
says the same in its own way. Those of a schema are in `schema_resources`. Short names belong to the
default project. What is missing is made; what is there and differs is left as it is, and said.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import yaml
from google.protobuf import json_format

from fanlog.broker.broker import Broker
from fanlog.errors import ConfigError, FanlogError, InvalidArgument
from fanlog.model import names
from fanlog.model.resources import SchemaSettings, Subscription, Topic
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.server.schema_resources import (
    SchemaResource,
    create_schema,
    find_schema,
    read_schema,
)
from fanlog.wire import resources as wire
from fanlog.wire import types

log = logging.getLogger("fanlog.resources")


Spec = TypeVar("Spec")

_SECTIONS = "schemas, topics and subscriptions"
#: More than this is a mistake; a subscription with everything set has about thirty.
_VALUES_MAX = 500_000

#: What TOML and YAML raise besides their own errors: for what is nested too deep, and, YAML, for a
#: value that is not what its tag says.
_MALFORMED = (
    yaml.YAMLError,
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


def read_resources(path: Path, project: str) -> Resources:
    """Read and validate a resources file.

    Raises:
        ConfigError: Names the file, the resource and what is wrong with it.
    """
    content = _load(path)
    unknown = content.keys() - {"schemas", "topics", "subscriptions"}
    if unknown:
        raise ConfigError(
            f"{path}: {min(map(str, unknown))!r} is not known; a resources file has {_SECTIONS}"
        )
    schemas = [
        _schema(path, str(name), value, project)
        for name, value in _section(path, content, "schemas").items()
    ]
    topics = [
        _spec(path, f"topic {name!r}", wire.topic_spec, types.Topic, name, value, project)
        for name, value in _section(path, content, "topics").items()
    ]
    subscriptions = [
        _spec(
            path,
            f"subscription {name!r}",
            wire.subscription_spec,
            types.Subscription,
            name,
            value,
            project,
        )
        for name, value in _section(path, content, "subscriptions").items()
    ]
    return Resources(path, tuple(schemas), tuple(topics), tuple(subscriptions))


async def ensure_resources(broker: Broker, wanted: Resources) -> None:
    """Make what is missing, schemas first; say what differs. Safe to repeat.

    Raises:
        ConfigError: Something cannot be made, such as a subscription without its topic; names the
            file and the resource.
    """
    for schema in wanted.schemas:
        present_schema = find_schema(broker, schema.name)
        if present_schema is None:
            with _naming(wanted.path, f"schema {schema.name!r}"):
                await create_schema(broker, schema)
            log.info("action=resource_created schema=%s", schema.name)
        else:
            _say_differences("schema", schema, present_schema)
    catalog = broker.hard.catalog
    for topic in wanted.topics:
        existing = catalog.find_topic(topic.name)
        if existing is None:
            with _naming(wanted.path, f"topic {topic.name!r}"):
                await broker.topics.create(topic)
            log.info("action=resource_created topic=%s", topic.name)
        else:
            _say_differences("topic", _found(broker, topic), existing)
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
            _say_differences("subscription", subscription, present)


def _found(broker: Broker, topic: TopicSpec) -> TopicSpec:
    """A topic whose schema's revisions are named by their ids, as the catalog has them."""
    settings = topic.schema_settings
    if settings is None:
        return topic
    try:
        bound = broker.hard.catalog.schemas.bound(settings)
    except FanlogError:
        # Then it differs anyway.
        return topic
    return replace(topic, schema_settings=replace(bound, schema_id=None))


def _say_differences(
    kind: str,
    wanted: SchemaResource | TopicSpec | SubscriptionSpec,
    present: SchemaResource | Topic | Subscription,
) -> None:
    for part in fields(wanted):
        asked, there = getattr(wanted, part.name), _as_asked(getattr(present, part.name))
        if asked != there:
            log.warning(
                "action=resource_differs %s=%s field=%s wanted=%r present=%r",
                kind,
                wanted.name,
                part.name,
                asked if part.name != "definition" else names.shown(asked),
                there if part.name != "definition" else names.shown(there),
            )


def _as_asked(value: Any) -> Any:
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


def _load(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        raise ConfigError(f"resources file {path} cannot be read: {error.strerror}") from error
    except _MALFORMED as error:
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


def _section(path: Path, content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = content.get(name) or {}
    if not isinstance(section, Mapping):
        raise ConfigError(f"{path}: {name} must be a table of names")
    return section


def _schema(path: Path, name: str, value: object, project: str) -> SchemaResource:
    what = f"schema {name!r}"
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {what} must be a table of fields")
    with _naming(path, what):
        return read_schema(path.parent, _full(name, "schemas", project), value)


def _spec(
    path: Path,
    what: str,
    read: Callable[[Any], Spec],
    message_class: Any,
    name: str,
    value: object,
    project: str,
) -> Spec:
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path}: {what} must be a table of fields")
    with _naming(path, what):
        message = json_format.ParseDict(_plain(value), message_class())
        is_topic = message_class is types.Topic
        full_name = _full(str(name), "topics" if is_topic else "subscriptions", project)
        if message.name not in ("", full_name):
            raise InvalidArgument(f"name: {message.name!r} is not the name it stands under")
        message.name = full_name
        if is_topic and message.schema_settings.schema:
            full = _full(message.schema_settings.schema, "schemas", project)
            message.schema_settings.schema = full
        if not is_topic:
            message.topic = _full(message.topic, "topics", project)
            dead_letter = message.dead_letter_policy.dead_letter_topic
            if dead_letter:
                full = _full(dead_letter, "topics", project)
                message.dead_letter_policy.dead_letter_topic = full
        return read(message)


def _plain(value: Any) -> Any:
    """Times as text: TOML and YAML read those that stand without quotes for themselves."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value.isoformat() if isinstance(value, date) else value


def _full(name: str, collection: str, project: str) -> str:
    return name if "/" in name else f"projects/{project}/{collection}/{name}"
