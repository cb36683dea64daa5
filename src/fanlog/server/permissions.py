"""The permissions that each method needs: one table, for enforcement, tests and documentation.

A method that is not here is refused on a server that authenticates. The methods of `INSIDE` carry
messages or ack ids: their verbs check the permission themselves, where the name is known without
parsing the request a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fanlog.core.hard_state import HardState
from fanlog.core.iam import SERVER
from fanlog.errors import InvalidArgument
from fanlog.model import attributes, jobs, names
from fanlog.model.ids import find_message_id
from fanlog.model.resources import PartitionId
from fanlog.server.needs import (
    Need,
    Rule,
    custom,
    in_project,
    on,
    on_each,
    on_forward,
    on_named,
    on_server,
    project_of,
    resource_name,
)
from fanlog.wire.jobs import values_of

PUBLISH: Final = "pubsub.topics.publish"
CONSUME: Final = "pubsub.subscriptions.consume"
READ_LOG: Final = "fanlog.topics.read"
METRICS: Final = "fanlog.metrics.get"
GET_TOPIC: Final = "pubsub.topics.get"
GET_SUBSCRIPTION: Final = "pubsub.subscriptions.get"
WRITE_SINKS: Final = "fanlog.sinks.write"

_ATTACH = "pubsub.topics.attachSubscription"
_ATTACH_SCHEMA = "pubsub.schemas.attach"

_DEAD_LETTER = "dead_letter_policy.dead_letter_topic"
_PUSH = "push_config.push_endpoint"
_SUB = "subscription"


def _iam(action: str) -> tuple[Rule, ...]:
    def find(request: Any, _: HardState) -> Iterator[Need]:
        resource = names.parse_resource(request.resource)
        yield f"pubsub.{resource.collection}.{action}", str(resource)

    return custom(f"pubsub.COLLECTION.{action}", "`resource`", find)


def _scope_policy(action: str) -> tuple[Rule, ...]:
    def find(request: Any, _: HardState) -> Iterator[Need]:
        scope = SERVER if request.resource == SERVER else project_of(request.resource, "resource")
        yield f"fanlog.policies.{action}", scope

    return custom(f"fanlog.policies.{action}", "`resource`: the server or a project", find)


def _detach(request: Any, hard: HardState) -> Iterator[Need]:
    yield from _detached(resource_name(request.subscription, "subscription"), hard)


def _detached(name: str, hard: HardState) -> Iterator[Need]:
    topic = project_of(name, "subscription")
    if hard.catalog.has_subscription(name):
        found = hard.catalog.topic_by_id(hard.catalog.subscription(name).topic_id)
        topic = topic if found is None else found.name
    yield "pubsub.topics.detachSubscription", topic, f"the topic of {name!r}"


def _attach(request: Any, _: HardState) -> Iterator[Need]:
    name = resource_name(request.topic, "topic")
    # A pattern reads topics that do not exist yet.
    yield _ATTACH, project_of(name, "topic") if names.is_pattern(name) else name


def _letters_made(request: Any, hard: HardState) -> Iterator[Need]:
    """With the label `fanlog-dead-letter: auto` a topic is made, and a subscription on it."""
    if request.labels.get(attributes.LABEL_DEAD_LETTER) != "auto":
        return
    topic = names.dead_letter_topic_of(request.name) if request.name else ""
    if topic and hard.catalog.find_topic(topic) is not None:
        yield _ATTACH, topic
        yield PUBLISH, topic
    else:
        yield "pubsub.topics.create", project_of(request.name or request.topic, "name")


def _selected(request: Any, _: HardState) -> Iterator[Need]:
    selection = request.selection
    if selection.topics:
        yield from ((READ_LOG, resource_name(one, "selection.topics")) for one in selection.topics)
    elif selection.pattern:
        yield READ_LOG, project_of(selection.pattern, "selection.pattern")
    elif selection.subscription:
        yield CONSUME, resource_name(selection.subscription, "selection.subscription")
    else:
        yield READ_LOG, SERVER


def _letters(request: Any, hard: HardState) -> Iterator[Need]:
    """Letters go back to the subscriptions that failed: those that have this dead letter topic."""
    name = resource_name(request.subscription, "subscription")
    yield CONSUME, name
    if request.source_subscription:
        yield CONSUME, resource_name(request.source_subscription, "source_subscription")
    else:
        yield from _sources(name, hard)


def _sources(name: str, hard: HardState) -> Iterator[Need]:
    """The right to each subscription whose letters another one has."""
    if not hard.catalog.has_subscription(name):
        return
    shares = hard.shares_of(hard.catalog.subscription(name))
    topics = {hard.catalog.topic_name_of(share.partition) for share in shares}
    for one in hard.catalog.subscriptions():
        if one.dead_letter and one.dead_letter.dead_letter_topic in topics:
            yield CONSUME, one.name, f"a subscription whose letters {name!r} has"


def _traced(request: Any, hard: HardState) -> Iterator[Need]:
    """One message on one subscription is a consumer's; on all of them, whoever reads the topic."""
    if request.subscription:
        yield CONSUME, resource_name(request.subscription, "subscription")
        return
    place = find_message_id(request.message_id)
    topic = "" if place is None else hard.catalog.topic_name_of(PartitionId(place[0]))
    yield READ_LOG, topic or SERVER, f"the topic of the message {names.shown(request.message_id)}"


def _browsed(request: Any, _: HardState) -> Iterator[Need]:
    """A topic's log is for those who read logs; what a subscription reads, for its consumers."""
    if request.subscription:
        yield CONSUME, resource_name(request.subscription, "subscription")
    else:
        yield READ_LOG, resource_name(request.topic, "topic")


def _watched(request: Any, _: HardState) -> Iterator[Need]:
    if not request.only_named:
        yield METRICS, SERVER
    yield from ((GET_TOPIC, resource_name(one, "topics")) for one in request.topics)
    for one in request.subscriptions:
        yield GET_SUBSCRIPTION, resource_name(one, "subscriptions")


#: The permissions of the acts that can be estimated, by collection and act.
_ACTS: Final[Mapping[tuple[str, str], str]] = {
    ("subscriptions", "seek"): CONSUME,
    ("subscriptions", "purge"): CONSUME,
    ("subscriptions", "snapshot"): CONSUME,
    ("subscriptions", "delete"): "pubsub.subscriptions.delete",
    ("topics", "delete"): "pubsub.topics.delete",
    ("snapshots", "delete"): "pubsub.snapshots.delete",
    ("schemas", "delete"): "pubsub.schemas.delete",
}


def _estimated(request: Any, hard: HardState) -> Iterator[Need]:
    """As the act itself."""
    resource = names.parse_resource(request.resource)
    if (resource.collection, request.act) == ("subscriptions", "detach"):
        yield from _detached(request.resource, hard)
        return
    permission = _ACTS.get((resource.collection, request.act))
    if permission is None:
        # Refused by its verb; until then as little is told as to any caller.
        permission = f"pubsub.{resource.collection}.get"
    yield permission, str(resource)
    if request.snapshot:
        yield "pubsub.snapshots.seek", resource_name(request.snapshot, "snapshot")


def _seek(request: Any, _: HardState) -> Iterator[Need]:
    yield CONSUME, resource_name(request.subscription, "subscription")
    if request.snapshot:
        yield "pubsub.snapshots.seek", resource_name(request.snapshot, "snapshot")


def _job(request: Any, hard: HardState) -> Iterator[Need]:
    """A job works with the pipeline's rights: its maker must have those that it uses."""
    project = project_of(request.parent, "parent")
    yield "fanlog.jobs.create", project
    given = values_of(request.arguments, "arguments")
    found = jobs.check_arguments(project.partition("/")[2], request.kind, given)
    topics = found.get("topics")
    if isinstance(topics, list):
        yield from ((READ_LOG, str(one)) for one in topics)
    for argument, permission in _JOB_NAMES.get(request.kind, {}).items():
        value = found.get(argument)
        if isinstance(value, str):
            is_whole = argument == "pattern" or permission == _JOB_PROJECT
            where = project_of(value, argument) if is_whole else value
            yield CONSUME if permission == _JOB_PROJECT else permission, where
    if request.kind in ("backtest", "verify") and not {"topics", "pattern"} & found.keys():
        yield READ_LOG, SERVER
    if request.kind == "redrive" and ("source" not in found or "message_ids" in found):
        # The job brings them back with the rights of the pipeline, wherever that is.
        yield from _sources(str(found["subscription"]), hard)
    if request.kind in _JOB_SERVER:
        yield _JOB_SERVER[request.kind], SERVER


#: All subscriptions of a topic's project.
_JOB_PROJECT: Final = "consume everywhere"
#: The permissions on what the arguments of a job name.
_JOB_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "replay": {"subscription": CONSUME, "to_topic": PUBLISH},
    "redrive": {"subscription": CONSUME, "source": CONSUME},
    "backtest": {"pattern": READ_LOG, "schema": "pubsub.schemas.get"},
    "fan-out": {"topic": _JOB_PROJECT},
    "verify": {"pattern": READ_LOG},
    "import": {"topic": PUBLISH},
}
_JOB_SERVER: Final = {
    "compact": "fanlog.lake.maintain",
    "expire": "fanlog.lake.maintain",
    "import": "fanlog.files.import",
}


def _validate(request: Any, _: HardState) -> Iterator[Need]:
    yield "pubsub.schemas.validate", project_of(request.parent, "parent")
    if request.name:
        yield "pubsub.schemas.get", resource_name(request.name.partition("@")[0], "name")


def _schema_named(permission: str) -> tuple[Rule, ...]:
    def find(request: Any, _: HardState) -> Iterator[Need]:
        yield permission, resource_name(request.name.partition("@")[0], "name")

    return custom(permission, "`name`", find)


def _job_named(permission: str) -> tuple[Rule, ...]:
    return (in_project(permission, "name"),)


def _schedule_named(permission: str) -> tuple[Rule, ...]:
    """On the project; whoever has a schedule publish must have that right on its topic, too."""

    def find(request: Any, hard: HardState) -> Iterator[Need]:
        yield permission, project_of(request.name, "name")
        schedule = hard.schedules.find(request.name)
        if schedule is not None:
            yield PUBLISH, schedule.topic, f"the topic of {names.shown(request.name)}"

    return custom(f"{permission}, {PUBLISH}", "the project of `name`; the schedule's topic", find)


def _alerted(request: Any, _: HardState) -> Iterator[Need]:
    """Alerts tell of a subscription, or of the server; both are seen by those only who may."""
    yield "fanlog.alerts.create", project_of(request.parent, "parent")
    alert = request.alert
    if alert.subscription:
        yield GET_SUBSCRIPTION, resource_name(alert.subscription, "alert.subscription")
    else:
        yield METRICS, SERVER


def _schedule_update(request: Any, hard: HardState) -> Iterator[Need]:
    name = request.schedule.name
    yield "fanlog.schedules.update", project_of(name, "schedule.name")
    schedule = hard.schedules.find(name)
    if "topic" in request.update_mask.paths:
        yield PUBLISH, resource_name(request.schedule.topic, "schedule.topic")
    elif schedule is not None:
        yield PUBLISH, schedule.topic, f"the topic of {names.shown(name)}"


def _ranges(request: Any, _: HardState) -> Iterator[Need]:
    if not request.ranges:
        raise InvalidArgument("ranges: none; at least one is needed")
    yield from {(READ_LOG, resource_name(one.topic, "ranges.topic")) for one in request.ranges}


#: By full name of the method. An empty tuple: every caller that is authenticated.
PERMISSIONS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "google.pubsub.v1.Publisher.CreateTopic": (
        in_project("pubsub.topics.create", "name"),
        on_named(_ATTACH_SCHEMA, "schema_settings.schema"),
    ),
    "google.pubsub.v1.Publisher.UpdateTopic": (
        on("pubsub.topics.update", "topic.name"),
        on_named(_ATTACH_SCHEMA, "topic.schema_settings.schema"),
    ),
    "google.pubsub.v1.Publisher.Publish": (on(PUBLISH, "topic"),),
    "google.pubsub.v1.Publisher.GetTopic": (on("pubsub.topics.get", "topic"),),
    "google.pubsub.v1.Publisher.ListTopics": (in_project("pubsub.topics.list", "project"),),
    "google.pubsub.v1.Publisher.ListTopicSubscriptions": (on("pubsub.topics.get", "topic"),),
    "google.pubsub.v1.Publisher.ListTopicSnapshots": (on("pubsub.topics.get", "topic"),),
    "google.pubsub.v1.Publisher.DeleteTopic": (on("pubsub.topics.delete", "topic"),),
    "google.pubsub.v1.Publisher.DetachSubscription": custom(
        "pubsub.topics.detachSubscription", "the topic of `subscription`", _detach
    ),
    "google.pubsub.v1.Subscriber.CreateSubscription": (
        in_project("pubsub.subscriptions.create", "name", "topic"),
        *custom(_ATTACH, "`topic`; of a pattern its project", _attach),
        on_named(PUBLISH, _DEAD_LETTER),
        *custom(
            f"pubsub.topics.create, {_ATTACH}, {PUBLISH}",
            "with `fanlog-dead-letter: auto`: the project, or the topic for dead letters if it is"
            " there",
            _letters_made,
        ),
        on_forward(PUBLISH, _PUSH, "name", "topic"),
    ),
    "google.pubsub.v1.Subscriber.GetSubscription": (on("pubsub.subscriptions.get", _SUB),),
    "google.pubsub.v1.Subscriber.UpdateSubscription": (
        on("pubsub.subscriptions.update", f"{_SUB}.name"),
        on_named(PUBLISH, f"{_SUB}.{_DEAD_LETTER}"),
        on_forward(PUBLISH, f"{_SUB}.{_PUSH}", f"{_SUB}.name"),
    ),
    "google.pubsub.v1.Subscriber.ListSubscriptions": (
        in_project("pubsub.subscriptions.list", "project"),
    ),
    "google.pubsub.v1.Subscriber.DeleteSubscription": (on("pubsub.subscriptions.delete", _SUB),),
    "google.pubsub.v1.Subscriber.ModifyPushConfig": (
        on("pubsub.subscriptions.update", _SUB),
        on_forward(PUBLISH, _PUSH, _SUB),
    ),
    "google.pubsub.v1.Subscriber.ModifyAckDeadline": (on(CONSUME, _SUB),),
    "google.pubsub.v1.Subscriber.Acknowledge": (on(CONSUME, _SUB),),
    "google.pubsub.v1.Subscriber.Pull": (on(CONSUME, _SUB),),
    "google.pubsub.v1.Subscriber.StreamingPull": (on(CONSUME, _SUB),),
    "google.pubsub.v1.Subscriber.GetSnapshot": (on("pubsub.snapshots.get", "snapshot"),),
    "google.pubsub.v1.Subscriber.ListSnapshots": (in_project("pubsub.snapshots.list", "project"),),
    "google.pubsub.v1.Subscriber.CreateSnapshot": (
        in_project("pubsub.snapshots.create", "name", _SUB),
        on(CONSUME, _SUB),
    ),
    "google.pubsub.v1.Subscriber.UpdateSnapshot": (on("pubsub.snapshots.update", "snapshot.name"),),
    "google.pubsub.v1.Subscriber.DeleteSnapshot": (on("pubsub.snapshots.delete", "snapshot"),),
    "google.pubsub.v1.Subscriber.Seek": custom(
        f"{CONSUME}, pubsub.snapshots.seek", "`subscription`; `snapshot`, when given", _seek
    ),
    "google.pubsub.v1.SchemaService.CreateSchema": (in_project("pubsub.schemas.create", "parent"),),
    "google.pubsub.v1.SchemaService.GetSchema": _schema_named("pubsub.schemas.get"),
    "google.pubsub.v1.SchemaService.ListSchemas": (in_project("pubsub.schemas.list", "parent"),),
    "google.pubsub.v1.SchemaService.ListSchemaRevisions": _schema_named(
        "pubsub.schemas.listRevisions"
    ),
    "google.pubsub.v1.SchemaService.CommitSchema": _schema_named("pubsub.schemas.commit"),
    "google.pubsub.v1.SchemaService.RollbackSchema": _schema_named("pubsub.schemas.rollback"),
    "google.pubsub.v1.SchemaService.DeleteSchemaRevision": _schema_named("pubsub.schemas.delete"),
    "google.pubsub.v1.SchemaService.DeleteSchema": _schema_named("pubsub.schemas.delete"),
    "google.pubsub.v1.SchemaService.ValidateSchema": (
        in_project("pubsub.schemas.validate", "parent"),
    ),
    "google.pubsub.v1.SchemaService.ValidateMessage": custom(
        "pubsub.schemas.validate, pubsub.schemas.get",
        "the project of `parent`; `name`, when given",
        _validate,
    ),
    "google.iam.v1.IAMPolicy.GetIamPolicy": _iam("getIamPolicy"),
    "google.iam.v1.IAMPolicy.SetIamPolicy": _iam("setIamPolicy"),
    # Answers for the caller, whatever it may do.
    "google.iam.v1.IAMPolicy.TestIamPermissions": (),
    "fanlog.v1.Catalog.DescribeTopics": (on_each("pubsub.topics.get", "topics"),),
    "fanlog.v1.Catalog.DescribeSubscriptions": (
        on_each("pubsub.subscriptions.get", "subscriptions"),
    ),
    "fanlog.v1.Catalog.DescribeConsumers": (on("pubsub.subscriptions.get", "subscription"),),
    "fanlog.v1.Catalog.DescribeSchema": _schema_named("pubsub.schemas.get"),
    "fanlog.v1.Jobs.CreateJob": custom(
        "fanlog.jobs.create", "the project of `parent`; and what the job does there", _job
    ),
    "fanlog.v1.Jobs.GetJob": _job_named("fanlog.jobs.get"),
    "fanlog.v1.Jobs.ListJobs": (in_project("fanlog.jobs.list", "parent"),),
    "fanlog.v1.Jobs.CancelJob": _job_named("fanlog.jobs.cancel"),
    "fanlog.v1.Jobs.DeleteJob": _job_named("fanlog.jobs.delete"),
    "fanlog.v1.Jobs.ReportJob": (on_server("fanlog.jobs.work"),),
    "fanlog.v1.Pipelines.ListPipelines": (on_server("fanlog.pipelines.list"),),
    "fanlog.v1.Pipelines.ReportPipeline": (on_server("fanlog.jobs.work"),),
    "fanlog.v1.Alerts.CreateAlert": custom(
        f"fanlog.alerts.create, {GET_SUBSCRIPTION}, {METRICS}",
        "the project of `parent`; the subscription of `alert`; without one, the server",
        _alerted,
    ),
    "fanlog.v1.Alerts.GetAlert": (in_project("fanlog.alerts.get", "name"),),
    "fanlog.v1.Alerts.ListAlerts": (in_project("fanlog.alerts.list", "parent"),),
    "fanlog.v1.Alerts.UpdateAlert": (in_project("fanlog.alerts.update", "alert.name"),),
    "fanlog.v1.Alerts.DeleteAlert": (in_project("fanlog.alerts.delete", "name"),),
    "fanlog.v1.Schedules.CreateSchedule": (
        in_project("fanlog.schedules.create", "parent"),
        on(PUBLISH, "schedule.topic"),
    ),
    "fanlog.v1.Schedules.GetSchedule": (in_project("fanlog.schedules.get", "name"),),
    "fanlog.v1.Schedules.ListSchedules": (in_project("fanlog.schedules.list", "parent"),),
    "fanlog.v1.Schedules.UpdateSchedule": custom(
        f"fanlog.schedules.update, {PUBLISH}",
        "the project of `schedule.name`; the topic, that of `schedule` if it is changed",
        _schedule_update,
    ),
    "fanlog.v1.Schedules.PauseSchedule": (in_project("fanlog.schedules.update", "name"),),
    "fanlog.v1.Schedules.ResumeSchedule": _schedule_named("fanlog.schedules.update"),
    "fanlog.v1.Schedules.DeleteSchedule": (in_project("fanlog.schedules.delete", "name"),),
    "fanlog.v1.Schedules.RunSchedule": _schedule_named("fanlog.schedules.run"),
    "fanlog.v1.Cluster.DescribeCluster": (on_server("fanlog.cluster.get"),),
    "fanlog.v1.Cluster.MoveCluster": (on_server("fanlog.cluster.move"),),
    "fanlog.v1.Lake.GetLake": (on_server("fanlog.lake.get"),),
    "fanlog.v1.Lake.ListTables": (on_server("fanlog.lake.get"),),
    "fanlog.v1.Lake.AcceptLoss": (on_server("fanlog.lake.acceptLoss"),),
    "fanlog.v1.Log.GetOffsets": custom(READ_LOG, "what `selection` names", _selected),
    "fanlog.v1.Log.GetRanges": custom(READ_LOG, "what `selection` names", _selected),
    "fanlog.v1.Log.FindOffsets": custom(READ_LOG, "what `selection` names", _selected),
    "fanlog.v1.Log.GetPlaces": custom(READ_LOG, "what `selection` names", _selected),
    "fanlog.v1.Log.Read": custom(READ_LOG, "each topic of `ranges`", _ranges),
    "fanlog.v1.Log.ReportArchived": (on_server("fanlog.log.reportArchived"),),
    "fanlog.v1.Sink.Stage": (
        on_server(WRITE_SINKS),
        *custom(PUBLISH, "each topic of the rows", lambda _, __: ()),
    ),
    "fanlog.v1.Sink.CommitEpoch": (on_server(WRITE_SINKS),),
    "fanlog.v1.Sink.AbortEpoch": (on_server(WRITE_SINKS),),
    "fanlog.v1.Sink.GetQuery": (on_server(WRITE_SINKS),),
    "fanlog.v1.Exports.ListExports": (on_server("fanlog.exports.run"),),
    "fanlog.v1.Exports.GetBatch": (on_server("fanlog.exports.run"),),
    "fanlog.v1.Exports.Advance": (on_server("fanlog.exports.run"),),
    "fanlog.v1.Exports.ReportExport": (on_server("fanlog.exports.run"),),
    "fanlog.v1.Replay.Reopen": (on(CONSUME, _SUB),),
    "fanlog.v1.Replay.Seek": custom(
        f"{CONSUME}, pubsub.snapshots.seek", "`subscription`; `snapshot`, when given", _seek
    ),
    "fanlog.v1.Replay.ListDeadLetters": (on(CONSUME, _SUB),),
    "fanlog.v1.Replay.CountDeadLetters": (on(CONSUME, _SUB),),
    "fanlog.v1.Replay.Redrive": custom(
        CONSUME, "`subscription`, and the subscriptions that the letters failed at", _letters
    ),
    "fanlog.v1.Replay.Discard": (on(CONSUME, _SUB),),
    "fanlog.v1.Inspection.Peek": (on(CONSUME, _SUB),),
    "fanlog.v1.Inspection.GetBacklog": (on("pubsub.subscriptions.get", _SUB),),
    "fanlog.v1.Inspection.ListBacklogs": (in_project("pubsub.subscriptions.list", "project"),),
    "fanlog.v1.Inspection.Trace": custom(
        f"{READ_LOG}, {CONSUME}",
        "the topic of `message_id`; with `subscription`, that alone",
        _traced,
    ),
    "fanlog.v1.Inspection.GetDelivery": (on(GET_SUBSCRIPTION, _SUB),),
    "fanlog.v1.Inspection.Estimate": custom(
        f"{CONSUME}, pubsub.topics.detachSubscription, pubsub.subscriptions.delete, "
        "pubsub.topics.delete, pubsub.snapshots.delete, pubsub.schemas.delete, "
        "pubsub.snapshots.seek",
        "`resource`, as the act itself; `snapshot`, when given",
        _estimated,
    ),
    # As Seek, which can do the same.
    "fanlog.v1.Inspection.Purge": (on(CONSUME, _SUB),),
    "fanlog.v1.Browse.Messages": custom(
        f"{READ_LOG}, {CONSUME}", "`topic`; with `subscription`, that alone", _browsed
    ),
    # Nothing of the server is in the answer.
    "fanlog.v1.Browse.ParseFilter": (),
    "fanlog.v1.Browse.TryFilter": custom(
        f"{READ_LOG}, {CONSUME}", "`topic`; with `subscription`, that alone", _browsed
    ),
    "fanlog.v1.Overview.Watch": custom(
        f"{METRICS}, {GET_TOPIC}, {GET_SUBSCRIPTION}",
        "the server, unless `only_named`; each of `topics` and `subscriptions`",
        _watched,
    ),
    # Only what the caller may see is in the answers.
    "fanlog.v1.Overview.ListProblems": (),
    "fanlog.v1.Overview.GetServer": (),
    "fanlog.v1.Overview.SearchTopics": (in_project("pubsub.topics.list", "project"),),
    "fanlog.v1.Overview.SearchSubscriptions": (in_project("pubsub.subscriptions.list", "project"),),
    "fanlog.v1.Auth.CreateAccount": (on_server("fanlog.accounts.create"),),
    "fanlog.v1.Auth.GetAccount": (on_server("fanlog.accounts.get"),),
    "fanlog.v1.Auth.ListAccounts": (on_server("fanlog.accounts.list"),),
    "fanlog.v1.Auth.DeleteAccount": (on_server("fanlog.accounts.delete"),),
    "fanlog.v1.Auth.AddKey": (on_server("fanlog.accounts.update"),),
    "fanlog.v1.Auth.RevokeKey": (on_server("fanlog.accounts.update"),),
    "fanlog.v1.Auth.CreateToken": (on_server("fanlog.accounts.update"),),
    "fanlog.v1.Auth.RevokeToken": (on_server("fanlog.accounts.update"),),
    "fanlog.v1.Auth.GetPolicy": _scope_policy("get"),
    "fanlog.v1.Auth.SetPolicy": _scope_policy("set"),
    "fanlog.v1.Auth.ListRoles": (),
    "fanlog.v1.Auth.WhoAmI": (),
    # Answers for the caller, whatever it may do.
    "fanlog.v1.Auth.CheckAccess": (),
    # What the service is made of: every caller that is authenticated.
    "grpc.reflection.ServerReflectionInfo": (),
    # Verbs of REST alone.
    "fanlog.rest.Position.Get": (on("pubsub.subscriptions.get", _SUB),),
}

#: Methods whose verbs check by themselves.
INSIDE: Final = frozenset(
    {
        "google.pubsub.v1.Publisher.Publish",
        "google.pubsub.v1.Subscriber.Pull",
        "google.pubsub.v1.Subscriber.Acknowledge",
        "google.pubsub.v1.Subscriber.ModifyAckDeadline",
        "google.pubsub.v1.Subscriber.StreamingPull",
        "fanlog.v1.Log.Read",
        "fanlog.v1.Sink.Stage",
        "fanlog.v1.Overview.Watch",
    }
)
#: Methods that read or carry messages: in the audit log only where that is asked for.
DATA_ACCESS: Final = INSIDE | {
    "fanlog.v1.Log.GetOffsets",
    "fanlog.v1.Log.GetRanges",
    "fanlog.v1.Log.FindOffsets",
    "fanlog.v1.Log.GetPlaces",
    "fanlog.v1.Sink.CommitEpoch",
    "fanlog.v1.Exports.GetBatch",
    "fanlog.v1.Exports.Advance",
    "fanlog.v1.Inspection.Peek",
    "fanlog.v1.Inspection.Trace",
    "fanlog.v1.Browse.Messages",
    "fanlog.v1.Browse.TryFilter",
}
