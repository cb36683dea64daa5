"""The metrics of a node of a cluster; a part of the table of all metrics."""

from __future__ import annotations

from fanlog.server.metrics.family import Family

CLUSTER = (
    Family(
        "fanlog_cluster_role",
        "gauge",
        "1 for the part that this node has: starting, standby, taking over, owner, failed.",
        ("role",),
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_serving",
        "gauge",
        "1 while calls to this node are served, by it or by the owner; 0 while they wait.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_sure",
        "gauge",
        "1 while this node owns and may answer.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_term",
        "gauge",
        "The present term, by the offset that it began at.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_applied_offset",
        "gauge",
        "First offset of the cluster's log that this node has not applied.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_lag_records",
        "gauge",
        "Records of the cluster's log that this node has not applied.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_kafka_silent_seconds",
        "gauge",
        "Since Kafka acknowledged this owner's last record, or last answered this standby.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_take_overs",
        "counter",
        "Terms of this node since it started.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_renewals_late",
        "counter",
        "Renewals that came when this owner was not sure any more.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_caches_discarded",
        "counter",
        "Caches that this node could not trust.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_stray_records",
        "counter",
        "Records of the topic that are no entries of the cluster, and were passed over.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_calls_forwarded",
        "counter",
        "Calls that this node forwarded to the owner.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_calls_held",
        "counter",
        "Calls that waited for an owner, or for one to be sure.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_calls_given_up",
        "counter",
        "Calls that waited in vain.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_calls_waiting",
        "gauge",
        "Calls that wait for an owner just now.",
        when="of a node of a cluster",
    ),
    Family(
        "fanlog_cluster_standby_lag_seconds",
        "gauge",
        "How far a standby was behind when it was heard of last.",
        ("node",),
        when="of the owner of a cluster",
    ),
    Family(
        "fanlog_cluster_standby_lag_records",
        "gauge",
        "The same in records of the cluster's log.",
        ("node",),
        when="of the owner of a cluster",
    ),
)
