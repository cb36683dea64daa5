"""The short form: resources by id in the server's own project, snake_case, plain names.

A resource has the fields of Google's API in snake_case, but for `name` and `topic`, which are ids
(a topic of another project is given in full); `mode` and `delivery_url` stand for `push_config`,
`dead_letter` for `dead_letter_policy`, and `retry`, `push_body` and `push_timeout_seconds` for
labels. PATCH changes the fields that it names, and `null` takes one back to its default. `order@2`
names a revision wherever a schema is named. The verbs behind it are those of gRPC.
"""

from __future__ import annotations

from functools import partial

from fanlog.server.rest import positions
from fanlog.server.rest import short_answers as answers
from fanlog.server.rest import short_requests as requests
from fanlog.server.rest import short_resources as resources
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.binding import HttpBinding, read_publish
from fanlog.server.rest.json_schema import record
from fanlog.server.rest.route import ReadRequest, Route

#: Names of fields in the verbs' refusals, and their names here; longer names first.
RENAMES = (
    ("dead_letter_policy.dead_letter_topic", "dead_letter.topic"),
    ("dead_letter_policy.max_delivery_attempts", "dead_letter.max_delivery_attempts"),
    ("dead_letter_policy", "dead_letter"),
    ("push_config.push_endpoint", "delivery_url"),
    ("push_config", "mode"),
    *((f"label {label}", field) for field, (label, _) in shapes.SETTINGS.items()),
    *((f"label {label}", field) for field, (label, _) in shapes.RATES.items()),
)

_TOPICS = "/v1/topics"
_TOPIC = f"{_TOPICS}/{{topic=*}}"
_SUBSCRIPTIONS = "/v1/subscriptions"
_SUBSCRIPTION = f"{_SUBSCRIPTIONS}/{{subscription=*}}"
_SNAPSHOTS = "/v1/snapshots"
_SNAPSHOT = f"{_SNAPSHOTS}/{{snapshot=*}}"
_SCHEMAS = "/v1/schemas"
_SCHEMA = f"{_SCHEMAS}/{{name=*}}"
_REVISION = f"{_SCHEMA}/revisions/{{revision=*}}"


def _commit(path: str) -> HttpBinding:
    return HttpBinding(
        *("POST", path, "SchemaService.CommitSchema", "schema"),
        takes=record(shapes.REVISION, "definition"),
        translate=requests.translate_revision,
        finish=requests.set_type,
    )


BINDINGS = (
    HttpBinding(
        *("POST", _TOPICS, "Publisher.CreateTopic", "*"),
        takes=record(shapes.NEW_TOPIC, "name"),
        translate=resources.translate_new_topic,
    ),
    HttpBinding("GET", _TOPICS, "Publisher.ListTopics", query=shapes.PAGE),
    HttpBinding("GET", _TOPIC, "Publisher.GetTopic"),
    HttpBinding(
        *("PATCH", f"{_TOPICS}/{{topic.name=*}}", "Publisher.UpdateTopic", "topic"),
        takes=record(shapes.TOPIC),
        translate=resources.translate_topic_change,
    ),
    HttpBinding("DELETE", _TOPIC, "Publisher.DeleteTopic"),
    HttpBinding(
        "GET", f"{_TOPIC}/subscriptions", "Publisher.ListTopicSubscriptions", query=shapes.PAGE
    ),
    HttpBinding("GET", f"{_TOPIC}/snapshots", "Publisher.ListTopicSnapshots", query=shapes.PAGE),
    HttpBinding(
        *("POST", _SUBSCRIPTIONS, "Subscriber.CreateSubscription", "*"),
        takes=record(shapes.SUBSCRIPTION, "name", "topic"),
        translate=resources.translate_new_subscription,
    ),
    HttpBinding("GET", _SUBSCRIPTIONS, "Subscriber.ListSubscriptions", query=shapes.PAGE),
    HttpBinding("GET", _SUBSCRIPTION, "Subscriber.GetSubscription"),
    HttpBinding(
        *("PATCH", f"{_SUBSCRIPTIONS}/{{subscription.name=*}}", "Subscriber.UpdateSubscription"),
        "subscription",
        takes=record(shapes.SUBSCRIPTION),
        translate=resources.translate_subscription_change,
    ),
    HttpBinding("DELETE", _SUBSCRIPTION, "Subscriber.DeleteSubscription"),
    *(
        HttpBinding(
            *("POST", f"{_TOPIC}{verb}", "Publisher.Publish", "*"),
            takes=record(shapes.MESSAGES, "messages"),
            translate=requests.translate_publish,
            finish=requests.refuse_output_only,
        )
        for verb in (":publish", "/publish")
    ),
    *(
        HttpBinding(
            *(http, f"{_SUBSCRIPTION}{verb}", "Subscriber.Pull", "*"),
            query=query,
            takes=record(shapes.PULL) if http == "POST" else None,
            translate=requests.translate_pull,
            finish=requests.check_count,
        )
        for http, verb, query in (
            ("POST", ":pull", {}),
            ("POST", "/pull", shapes.PULL_QUERY),
            ("GET", "/pull", shapes.PULL_QUERY),
        )
    ),
    HttpBinding(
        *("GET", f"{_SUBSCRIPTION}/snapshot", positions.GET_POSITION),
        gives=shapes.POSITION,
        write=answers.write_position,
    ),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}:ack", "Subscriber.Acknowledge", "*"),
        takes=record(shapes.ACK_IDS, "ack_ids"),
    ),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}:nack", "Subscriber.ModifyAckDeadline", "*"),
        takes=record(shapes.NACK, "ack_ids"),
        translate=requests.translate_nack,
    ),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}:modify_ack_deadline", "Subscriber.ModifyAckDeadline", "*"),
        takes=record(shapes.MODIFY, "ack_ids", "ack_deadline_seconds"),
    ),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}:seek", positions.SEEK, "*"),
        takes=record(shapes.SEEK),
        translate=requests.translate_seek,
    ),
    HttpBinding("POST", f"{_SUBSCRIPTION}:detach", "Publisher.DetachSubscription"),
    HttpBinding(
        *("POST", _SNAPSHOTS, "Subscriber.CreateSnapshot", "*"),
        takes=record(shapes.NEW_SNAPSHOT, "name", "subscription"),
        translate=resources.translate_snapshot,
    ),
    HttpBinding("GET", _SNAPSHOTS, "Subscriber.ListSnapshots", query=shapes.PAGE),
    HttpBinding("GET", _SNAPSHOT, "Subscriber.GetSnapshot"),
    HttpBinding(
        *("PATCH", f"{_SNAPSHOTS}/{{snapshot.name=*}}", "Subscriber.UpdateSnapshot", "snapshot"),
        takes=record(shapes.SNAPSHOT),
        translate=resources.translate_snapshot,
    ),
    HttpBinding("DELETE", _SNAPSHOT, "Subscriber.DeleteSnapshot"),
    *(
        HttpBinding(
            *("POST", f"{_SUBSCRIPTION}:{verb}", f"Replay.{verb.capitalize()}", "*"),
            takes=record(fields),
            translate=requests.translate_letters,
        )
        for verb, fields in (
            ("reopen", shapes.REOPEN),
            ("redrive", shapes.REDRIVE),
            ("discard", shapes.DISCARD),
        )
    ),
    HttpBinding(
        *("GET", f"{_SUBSCRIPTION}/dead_letters", "Replay.ListDeadLetters"),
        query=shapes.CRITERIA | shapes.PAGE,
        finish=requests.name_source,
    ),
    HttpBinding("GET", f"{_SUBSCRIPTION}/peek", "Inspection.Peek", query=shapes.PEEK),
    HttpBinding(
        *("POST", f"{_SUBSCRIPTION}:purge", "Inspection.Purge", "*"), takes=record(shapes.PURGE)
    ),
    HttpBinding(
        "GET", f"{_SUBSCRIPTION}/backlog", "Inspection.GetBacklog", query=shapes.BACKLOG_QUERY
    ),
    HttpBinding("GET", "/v1/backlogs", "Inspection.ListBacklogs", query=shapes.PAGE),
    HttpBinding(
        *("GET", "/v1/messages/{message_id=*}/trace", "Inspection.Trace"),
        query=shapes.TRACE_QUERY,
        finish=requests.name_message,
    ),
    HttpBinding(
        *("POST", _SCHEMAS, "SchemaService.CreateSchema", "schema"),
        takes=record(shapes.SCHEMA, "name", "type", "definition"),
        translate=requests.translate_new_schema,
        finish=requests.name_new_schema,
    ),
    HttpBinding("GET", _SCHEMAS, "SchemaService.ListSchemas", query=shapes.PAGE),
    HttpBinding("GET", _SCHEMA, "SchemaService.GetSchema"),
    HttpBinding("DELETE", _SCHEMA, "SchemaService.DeleteSchema", finish=requests.choose_deletion),
    _commit(f"{_SCHEMA}:commit"),
    HttpBinding(
        *("POST", f"{_SCHEMA}:rollback", "SchemaService.RollbackSchema", "*"),
        takes=record(shapes.ROLLBACK, "revision"),
        translate=requests.translate_rollback,
    ),
    _commit(f"{_SCHEMA}/revisions"),
    HttpBinding(
        "GET", f"{_SCHEMA}/revisions", "SchemaService.ListSchemaRevisions", query=shapes.PAGE
    ),
    HttpBinding("GET", _REVISION, "SchemaService.GetSchema", finish=requests.name_revision),
    HttpBinding(
        "DELETE", _REVISION, "SchemaService.DeleteSchemaRevision", finish=requests.name_revision
    ),
    HttpBinding(
        *("POST", f"{_SCHEMAS}:validate", "SchemaService.ValidateSchema", "schema"),
        takes=record(shapes.DEFINITION, "type", "definition"),
    ),
    HttpBinding(
        *("POST", f"{_SCHEMAS}:validate_message", "SchemaService.ValidateMessage", "*"),
        takes=record(shapes.VALIDATION, "encoding", "message"),
        translate=requests.translate_validation,
    ),
)


def routes() -> list[Route]:
    """The routes of the table."""
    return [route(binding) for binding in BINDINGS]


def route(binding: HttpBinding) -> Route:
    """The route of a row, by the rules of the short form."""
    answer = binding.messages[1]
    shown = None if binding.http == "DELETE" else answers.ANSWERS.get(answer)
    reader = requests.ShortReader(binding)
    is_publish = binding.method == "Publisher.Publish"
    read: ReadRequest = partial(read_publish, reader.name, reader) if is_publish else reader
    gives = binding.gives or (shown.schema if shown else None)
    status = 204 if gives is None else shown.posted if shown and binding.http == "POST" else 200
    return Route(
        http=binding.http,
        path=binding.path,
        method=binding.method,
        read=read,
        write=binding.write or partial(answers.write, answer),
        status=status,
        takes=binding.takes,
        gives=gives,
        parameters=binding.query,
        waits=binding.may_wait,
        renames=RENAMES,
    )
