"""All services of the gRPC port; REST serves their unary methods too."""

from __future__ import annotations

from fanlog.server import (
    alerts_api,
    auth_api,
    browse_api,
    catalog_api,
    cluster_api,
    delivery_api,
    exports_api,
    iam_api,
    inspection_api,
    jobs_api,
    lake_api,
    log_api,
    overview_api,
    pipelines_api,
    publisher_api,
    replay_api,
    schedules_api,
    schema_api,
    sink_api,
    snapshot_api,
    subscription_api,
)
from fanlog.server.methods import Service, name_methods

PUBLISHER = Service("google.pubsub.v1.Publisher", publisher_api.METHODS)
SUBSCRIBER = Service(
    "google.pubsub.v1.Subscriber",
    (*subscription_api.METHODS, *delivery_api.METHODS, *snapshot_api.METHODS),
    delivery_api.STREAMS,
)
SCHEMA_SERVICE = Service("google.pubsub.v1.SchemaService", schema_api.METHODS)

SERVICES = (
    PUBLISHER,
    SUBSCRIBER,
    SCHEMA_SERVICE,
    Service("google.iam.v1.IAMPolicy", iam_api.METHODS),
    Service("fanlog.v1.Catalog", catalog_api.METHODS),
    Service("fanlog.v1.Jobs", jobs_api.METHODS),
    Service("fanlog.v1.Pipelines", pipelines_api.METHODS),
    Service("fanlog.v1.Schedules", schedules_api.METHODS),
    Service("fanlog.v1.Alerts", alerts_api.METHODS),
    Service("fanlog.v1.Cluster", cluster_api.METHODS),
    Service("fanlog.v1.Lake", lake_api.METHODS),
    Service("fanlog.v1.Log", log_api.METHODS, log_api.STREAMS),
    Service("fanlog.v1.Sink", sink_api.METHODS, sink_api.STREAMS),
    Service("fanlog.v1.Exports", exports_api.METHODS),
    Service("fanlog.v1.Replay", replay_api.METHODS),
    Service("fanlog.v1.Inspection", inspection_api.METHODS),
    Service("fanlog.v1.Browse", browse_api.METHODS),
    Service("fanlog.v1.Overview", overview_api.METHODS, overview_api.STREAMS),
    Service("fanlog.v1.Auth", auth_api.METHODS),
)
SERVICE_NAMES = tuple(service.name for service in SERVICES)

#: Every method with one request and one answer, by a name such as `Publisher.Publish`.
METHODS = name_methods(SERVICES)
#: Names of the methods that take larger requests than others.
LARGE = frozenset(name for name, method in METHODS.items() if method.is_large)
