"""Inputs written by hand, from which the fuzzers begin: `make fuzz-seeds` writes them down.

They come from the product's own encoders, so that a new format or request is one line here. In the
corpus they are called `seed-…`; those that a search has kept go by a hash of their content, and
those that found a fault by what the fault was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace

from pyroaring import BitMap64

from fanlog.core.records import (
    Activity,
    AttemptsChunk,
    Counters,
    CursorChunk,
    CursorHead,
    FormerTopicRecord,
    LeaseHeld,
    Record,
    SnapshotRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.log import batch as codec
from fanlog.log import envelope
from fanlog.log.envelope import Kind
from fanlog.model.ids import message_id
from fanlog.model.resources import FilterChange, PartitionId, SnapshotId, SubscriptionId, TopicId
from fanlog.testing.conformance import make_body
from fanlog.wire import types
from fanlog.wire.paging import Page
from fuzz import budget_seeds, credential_seeds, http2_seeds, replay_seeds, surface_seeds
from fuzz.draw import chunk
from fuzz.table import CORPUS
from fuzz.targets import rest, server, texts, wire
from fuzz.targets.formats import FITTED, RAW, SEALED
from fuzz.world import LETTERS, PATTERN, SNAPSHOT, SUBSCRIPTIONS, TOPIC, placeholder

EMOJI = "\U0001f389"
#: As long as a project may be, and as large.
LONG = f"projects/{EMOJI * 255}"

#: Every construct once, some of them together.
FILTERS = [
    b'attributes.k = "v" AND NOT attributes."a.b" != "\\x41\\u00e9\\U0001F600\\101\\n\\""',
    b'-(attributes:k OR attributes:"a b") AND (hasPrefix(attributes.k, "p") OR hasAttribute("j"))',
    b'event=order.* AND region != *-east* AND topic: ord AND message_id IN (1, a, "b")',
    b'payload.items[0]."odd key".x >= -1.5e3 OR payload:a.b OR payload[1] = true',
    b'publish_time > "2026-01-31T12:00:00.5+01:00" AND ordering_key = "a\\*" AND k < 5',
]
JSON_FILTERS = [
    b'{"payload.amount": {">=": 1000, "<": 1e5}, "k": "us-*", "attributes.any": true}',
    b'{"any": [{"a": {"in": [1, "b"]}}, {"not": {"c": {"exists": false}}}], "d": {"prefix": "x"}}',
    b'{"publish_time": {"!=": "2026-01-31T12:00:00Z"}, "k": {"=": "a\\\\*\\u00e9"}}',
]


def batch_values() -> list[bytes]:
    plain = make_body(b"one", b"two", b"")
    keyed = make_body(b"one", b"two", key_hashes=[0, 7])
    said = make_body(b"one", attributes={"a": "b", "é": ""})
    return [
        value
        for body in (plain, keyed, said)
        for _, value in codec.encode(
            [body],
            sequence=3,
            topic=1,
            partition=PartitionId(2),
            base_offset=10,
            publish_time_ns=10**18,
        )
    ]


def envelope_values() -> list[bytes]:
    row = (0).to_bytes(8, "little") + (9).to_bytes(8, "little") + b"\0\0\0\0"
    return [
        envelope.encode(kind, key, payload, sequence=3, publish_time_ns=10**18)
        for kind, key, payload in (
            (Kind.STATE, b"I", b"\x01" + bytes(16)),
            (Kind.PARTITION, (2).to_bytes(4, "big"), row),
            (Kind.META, b"identity", b"0123456789abcdef"),
        )
    ]


def some_records() -> list[Record]:
    bits = BitMap64([5, 6, 9])
    partition = PartitionId(2)
    return [
        Counters(5, 1),
        TopicRecord(TopicId(1), wire._TOPIC),
        FormerTopicRecord(TopicId(6), wire._TOPIC),
        SubscriptionRecord(SubscriptionId(3), wire._SUBSCRIPTION),
        SubscriptionRecord(
            SubscriptionId(7),
            replace(
                wire._SUBSCRIPTION,
                topic="projects/p/topics/#",
                topic_id=None,
                partitions=(),
                filter="a = b",
                filter_changes=(FilterChange(filter="c = d", before_sequence=5),),
            ),
        ),
        SnapshotRecord(SnapshotId(4), wire._SNAPSHOT),
        CursorHead(3, partition, 4, 1),
        CursorChunk(3, partition, 0, bits),
        AttemptsChunk(3, partition, 0, ((5, 1), (7, 2))),
        LeaseHeld(3, partition, 1, 0, 10.5, bits),
        Activity(3, 1.5),
    ]


def record_pairs() -> list[tuple[bytes, bytes]]:
    return [(one.key(), one.value() or b"") for one in some_records()]


def publish_requests() -> list[bytes]:
    """`messages` fields, to stand behind a topic."""
    made = (
        [{"data": b"a"}],
        [{"data": b"a"}, {"data": b"b"}],
        [{"data": b"a"}, {"data": b"b" * 200}],
        [{"data": b"a", "attributes": {"k": "v", "é": ""}, "ordering_key": "key"}],
        [{"data": b"a", "message_id": "7", "publish_time": {"seconds": 1, "nanos": 2}}],
        [{"attributes": {"googclient_x": "y"}}],
        [{"attributes": {"goog": "y"}}],
    )
    return [types.PublishRequest(messages=one).SerializeToString() for one in made]


def calls(*pairs: tuple[str, object]) -> bytes:
    """A story of requests: method and message, or `wait` and which of the pauses."""
    story = b""
    for method, message in pairs:
        if method == "wait":
            assert isinstance(message, int)
            story += bytes([server.PAUSE]) + chunk(b"." * message)
        else:
            raw = message.SerializeToString()  # type: ignore[attr-defined]
            story += bytes([server.NAMES.index(method)]) + chunk(raw)
    return story


def ack_id(name: str, offset: int = 0) -> str:
    return f"{placeholder(name).decode()}{offset:012x}"


def request_stories() -> Iterable[bytes]:
    plain, once = SUBSCRIPTIONS["plain"], SUBSCRIPTIONS["once"]
    yield calls(("Publish", types.PublishRequest(topic=TOPIC, messages=[{"data": b"x"}])))
    for name, full in SUBSCRIPTIONS.items():
        pull = types.PullRequest(subscription=full, max_messages=3, return_immediately=True)
        nack = types.ModifyAckDeadlineRequest(subscription=full, ack_ids=[ack_id(name)])
        ids = [ack_id(name), ack_id(name, 1), ack_id(name, 2**48 - 1)]
        ack = types.AcknowledgeRequest(subscription=full, ack_ids=ids)
        yield calls(("Pull", pull), ("ModifyAckDeadline", nack), ("Acknowledge", ack), ("wait", 1))
        yield calls(("Pull", pull), ("wait", 1), ("Pull", pull), ("wait", 1), ("Pull", pull))
    yield calls(("Pull", types.PullRequest(subscription=once, max_messages=1000)), ("wait", 2))
    yield calls(
        ("Seek", types.SeekRequest(subscription=plain, time={"seconds": 253402300799})),
        ("Seek", types.SeekRequest(subscription=plain, snapshot=SNAPSHOT)),
        ("Seek", types.SeekRequest(subscription=once, time={"seconds": -62135596800})),
    )
    for method, message in (
        ("GetTopic", types.GetTopicRequest(topic=TOPIC)),
        ("ListTopics", types.ListTopicsRequest(project="projects/test", page_size=1)),
        ("ListTopicSubscriptions", types.ListTopicSubscriptionsRequest(topic=TOPIC)),
        ("ListTopicSnapshots", types.ListTopicSnapshotsRequest(topic=TOPIC)),
        ("ListSubscriptions", types.ListSubscriptionsRequest(project="projects/test")),
        ("ListSnapshots", types.ListSnapshotsRequest(project="projects/test")),
        ("GetSubscription", types.GetSubscriptionRequest(subscription=plain)),
        ("GetSnapshot", types.GetSnapshotRequest(snapshot=SNAPSHOT)),
        ("DeleteSnapshot", types.DeleteSnapshotRequest(snapshot=SNAPSHOT)),
        ("DeleteSubscription", types.DeleteSubscriptionRequest(subscription=once)),
        ("ModifyPushConfig", types.ModifyPushConfigRequest(subscription=plain)),
        (
            "UpdateTopic",
            types.UpdateTopicRequest(
                topic={"name": TOPIC, "labels": {"a": "b"}}, update_mask={"paths": ["labels"]}
            ),
        ),
        (
            "UpdateSnapshot",
            types.UpdateSnapshotRequest(
                snapshot={"name": SNAPSHOT, "expire_time": {"seconds": 1_100_000}},
                update_mask={"paths": ["expire_time"]},
            ),
        ),
        (
            "UpdateSubscription",
            types.UpdateSubscriptionRequest(
                subscription={"name": plain, "enable_exactly_once_delivery": True},
                update_mask={"paths": ["enable_exactly_once_delivery", "dead_letter_policy"]},
            ),
        ),
        (
            "CreateSubscription",
            types.Subscription(
                name=f"{plain}-2",
                topic=TOPIC,
                ack_deadline_seconds=20,
                message_retention_duration={"seconds": 900},
                expiration_policy={"ttl": {"seconds": 90_000}},
                retry_policy={"minimum_backoff": {"seconds": 1}},
                labels={"fanlog-start": "1970-01-12T13:46:40Z", "fanlog-dead-letter": "auto"},
            ),
        ),
    ):
        yield calls((method, message), (method, message))
    yield calls(
        ("DeleteTopic", types.DeleteTopicRequest(topic=TOPIC)),
        ("DeleteTopic", types.DeleteTopicRequest(topic=LETTERS)),
        ("wait", 3),
        ("GetSubscription", types.GetSubscriptionRequest(subscription=plain)),
    )
    yield from routed_stories()
    # Names as long as they may be, in sentences that name two of them.
    yield calls(
        ("CreateTopic", types.Topic(name=f"{LONG}/topics/one")),
        (
            "CreateSubscription",
            types.Subscription(name=f"{LONG}/subscriptions/one", topic=f"{LONG}/topics/one"),
        ),
        (
            "Seek",
            types.SeekRequest(subscription=f"{LONG}/subscriptions/one", snapshot=SNAPSHOT),
        ),
    )


def routed_stories() -> Iterable[bytes]:
    """Filters and patterns: made, changed, moved in time, read."""
    name = "projects/test/subscriptions/new"
    pull = "Pull", types.PullRequest(subscription=name, max_messages=5, return_immediately=True)
    seek = "Seek", types.SeekRequest(subscription=name, time={"seconds": 1})
    messages = [
        {"data": b'{"v": %d}' % n, "attributes": {"n": str(n)}, "ordering_key": "k"}
        for n in range(3)
    ]
    publish = "Publish", types.PublishRequest(topic=TOPIC, messages=messages)

    def create(topic: str, text: str) -> tuple[str, object]:
        labels = {"fanlog-start": "earliest"}
        made = types.Subscription(
            name=name, topic=topic, filter=text, labels=labels, retain_acked_messages=True
        )
        return "CreateSubscription", made

    def change(text: str) -> tuple[str, object]:
        return (
            "UpdateSubscription",
            types.UpdateSubscriptionRequest(
                subscription={"name": name, "filter": text}, update_mask={"paths": ["filter"]}
            ),
        )

    yield calls(
        create(TOPIC, "NOT payload.v >= 1"), pull, publish, change("payload.v < 2"), pull, seek
    )
    yield calls(create(TOPIC, "attributes:n"), change("n = 1"), change(""), ("wait", 1), pull)
    yield calls(create(PATTERN, 'topic = "o*"'), publish, pull, change("n != 2"), seek, pull)
    new_topic = types.Topic(name="projects/test/topics/orders.new")
    snapshot = types.CreateSnapshotRequest(name="projects/test/snapshots/new", subscription=name)
    yield calls(
        create("projects/test/topics/orders.#", ""),
        ("CreateSnapshot", snapshot),
        ("CreateTopic", new_topic),
        ("Publish", types.PublishRequest(topic=new_topic.name, messages=messages)),
        ("DeleteTopic", types.DeleteTopicRequest(topic=new_topic.name)),
        pull,
        ("wait", 2),
        ("Seek", types.SeekRequest(subscription=name, snapshot=snapshot.name)),
        pull,
    )
    yield calls(create("projects/test/topics/a.**", ""), create(TOPIC, "a = 1 AND b OR c"))


def stream_stories() -> Iterable[bytes]:
    for name, full in SUBSCRIPTIONS.items():
        first = types.StreamingPullRequest(
            subscription=full,
            stream_ack_deadline_seconds=10,
            protocol_version=1,
            max_outstanding_messages=2,
        )
        acks = types.StreamingPullRequest(ack_ids=[ack_id(name), ack_id(name, 2**48 - 1)])
        nacks = types.StreamingPullRequest(
            modify_deadline_ack_ids=[ack_id(name, 1), ack_id(name, 2)],
            modify_deadline_seconds=[0, 30],
        )
        later = types.StreamingPullRequest(stream_ack_deadline_seconds=20)
        story = chunk(first.SerializeToString())
        for kind, raw in (
            (server.SEND, acks.SerializeToString()),
            (server.SEND, nacks.SerializeToString()),
            (server.WAIT, b"."),
            (server.PUBLISH, b"new"),
            (server.SEND, later.SerializeToString()),
            (server.SEND, b""),
            (server.SETTLE, b""),
        ):
            story += bytes([kind]) + chunk(raw)
        yield story
        yield story + bytes([server.DELETE]) + chunk(b"")


def http(method: str, path: str, body: object = None, query: bytes = b"") -> bytes:
    """One request of a story over HTTP; a path that is none of the target's is written out."""
    known = f"/v1/{path}" in rest.PATHS
    place = rest.PATHS.index(f"/v1/{path}") if known else len(rest.PATHS)
    written = b"" if known else chunk(f"v1/{path}".encode())
    content = b"" if body is None else json.dumps(body).encode()
    head = bytes([rest.METHODS.index(method), place])
    return head + written + chunk(query) + chunk(content)


def rest_stories() -> Iterable[bytes]:
    plain, once = SUBSCRIPTIONS["plain"], SUBSCRIPTIONS["once"]
    message = {"data": "YQ==", "attributes": {"k": "v"}, "orderingKey": "k"}
    yield http("POST", f"{TOPIC}:publish", {"messages": [message]})
    yield http("POST", f"{TOPIC}:publish", {"messages": [message | {"messageId": "1"}]})
    yield http("POST", f"{plain}:pull", {"maxMessages": 2, "returnImmediately": True})
    yield http("POST", f"{plain}:pull", {"max_messages": "1"}) * 2
    yield http("POST", f"{once}:acknowledge", {"ackIds": ["x"]})
    yield http("POST", f"{plain}:seek", {"time": "2026-01-31T12:00:00.5+01:00"})
    yield http("POST", f"{plain}:seek", {"snapshot": SNAPSHOT})
    yield http("POST", f"{plain}:detach")
    yield http("PUT", "projects/test/topics/new", {"labels": {"a": "b"}}) * 2
    settings = {"topic": TOPIC, "filter": "attributes:k", "ackDeadlineSeconds": 20}
    policy = {"deadLetterTopic": LETTERS, "maxDeliveryAttempts": 5}
    yield http(
        "PUT", "projects/test/subscriptions/new", settings | {"deadLetterPolicy": policy}
    ) + http("DELETE", "projects/test/subscriptions/new")
    yield http("PATCH", TOPIC, {"topic": {"labels": {}}, "updateMask": "labels"})
    yield http("PATCH", TOPIC, {"topic": {"messageRetentionDuration": "600s"}}, b"updateMask=x")
    for listed in ("topics", "subscriptions", "snapshots"):
        yield http("GET", f"projects/test/{listed}", query=b"pageSize=1&%24alt=json")
    yield http("POST", "topics", {"name": "new", "labels": {"a": "b"}}) + http("GET", "topics")
    message = {"data": "YQ==", "ordering_key": "k"}
    yield http("POST", "topics/orders:publish", {"messages": [message]})
    short = {"name": "new", "topic": "orders", "mode": "pull", "dead_letter": {"topic": "letters"}}
    yield http("POST", "subscriptions", short)
    yield http("PATCH", "subscriptions/failing", {"dead_letter": None, "filter": "attributes:k"})
    yield http("PATCH", "subscriptions/failing", {"dead_letter": {"max_delivery_attempts": 3}})
    yield http("POST", "subscriptions/plain:pull", {"return_immediately": True})
    yield http("POST", "subscriptions/plain:nack", {"ack_ids": ["x"], "requeue": True})
    yield http("POST", "subscriptions/plain:seek", {"snapshot": "monday"})
    yield http("POST", "snapshots", {"name": "new", "subscription": "plain"})
    yield http("POST", f"{plain}/pull", query=b"maxMessages=2&returnImmediately=true")
    yield http("POST", f"{plain}/seek", {"messageId": message_id(1, 2)})
    yield http("GET", f"{plain}/snapshot") + http("POST", f"{TOPIC}/publish", {"messages": []})
    yield http("PUT", SUBSCRIPTIONS["failing"], {"topic": "orders", "labels": {"a": "b"}})
    yield http("GET", "projects/%ff/topics") + http("HEAD", "projects//topics:x")


def update_requests() -> Iterable[bytes]:
    topic = types.UpdateTopicRequest(
        topic={"labels": {"a": "b"}, "message_retention_duration": {"seconds": 900}}
    )
    yield b"\0" + chunk(b"labels,message_retention_duration") + topic.SerializeToString()
    subscription = types.UpdateSubscriptionRequest(
        subscription={
            "ack_deadline_seconds": 20,
            "retry_policy": {"minimum_backoff": {"seconds": 1, "nanos": 5}},
            "expiration_policy": {"ttl": {"seconds": 10**6}},
            "dead_letter_policy": {"dead_letter_topic": LETTERS, "max_delivery_attempts": 3},
        }
    ).SerializeToString()
    for paths in (
        b"ack_deadline_seconds,retry_policy,expiration_policy,dead_letter_policy",
        b"retry_policy.minimum_backoff,dead_letter_policy.max_delivery_attempts",
        b"expiration_policy.ttl,labels,push_config,filter",
        b"enable_exactly_once_delivery,retain_acked_messages,message_retention_duration",
        b"name",
    ):
        yield b"\1" + chunk(paths) + subscription
    snapshot = types.UpdateSnapshotRequest(snapshot={"expire_time": {"seconds": 5}})
    yield b"\2" + chunk(b"expire_time,labels") + snapshot.SerializeToString()


def pattern_stories() -> Iterable[bytes]:
    """Patterns and topics, before each of the two how many there are besides one."""
    for patterns, topics in (
        (["orders.*.created", "orders.#", "#.created", "#"], ["orders.eu.created", "orders"]),
        (["Order*", "Order.*", "us-*", "*-eu-*"], ["OrderPlaced", "a-eu-b", "us-1"]),
        (["a.#.b.#.c", "#.*", "*.#", "#.#", "a.*.*.c"], ["a.b.c", "a..b.c", "a.."]),
        ([".".join("#a" * 60), "#.a.#.a.#.a.#", "*a*a*a*b"], [".".join("a" * 128), "a" * 255]),
        (["a*b*c", "a*bb*c*bb*d", "*x*y*.#"], ["abbcbbd", "axyc.a", "abc"]),
        (["a..b", "a.#b", "a.**", "goog*", "1*", ".*", "abc", "é*"], ["a..b", "abc"]),
    ):
        story = bytes([len(patterns) - 1]) + b"".join(chunk(one.encode()) for one in patterns)
        yield story + bytes([len(topics) - 1]) + b"".join(chunk(one.encode()) for one in topics)


TOML = b"""[schemas.order]
type = "AVRO"
definition = '"string"'
compatibility = "BACKWARD"

[topics.orders]
labels = { team = "shop" }
message_retention_duration = "86400s"
schema_settings = { schema = "order", encoding = "JSON" }

[subscriptions.billing]
topic = "orders"
ack_deadline_seconds = 30
labels = { fanlog-start = 2026-01-31T12:00:00Z }
dead_letter_policy = { dead_letter_topic = "orders", max_delivery_attempts = 5 }
"""
YAML = b"""topics:
  orders: {labels: &shop {team: shop}}
subscriptions:
  billing:
    topic: orders
    labels: *shop
    retryPolicy: {minimumBackoff: 10s}
    labels: {fanlog-start: 2026-01-31T12:00:00Z}
"""
CONFIG = b"""host = "127.0.0.1"
port = 0
http_port = 65535
memory = true
insecure = false
project = "test"
resources = "resources.toml"
disk_reserve_bytes = 1_000
drain_s = 0.5
log_level = "debug"
"""
DATA_DIR = b'data_dir = "data"\ninsecure = true\nhost = "0.0.0.0"\n'


def command_lines() -> Iterable[bytes]:
    values = {
        "--topic": "orders",
        "--retention": "7d",
        "--ack-deadline": "1m30s",
        "--label": "a=b",
        "--dead-letter": "auto",
        "--max-attempts": "5",
        "--min-backoff": "10",
        "--max-backoff": "600s",
        "--expiration": "never",
        "--start": "2026-01-31T12:00:00Z",
        "--time": "10m",
        "--snapshot": "monday",
        "--position": "earliest",
        "--message-id": "2000000000007",
        "--attr": "k=v",
        "--key": "k",
        "--max": "3",
        "--wait": "10ms",
        "--project": "p",
    }
    for place, (_, known) in enumerate(texts.COMMANDS):
        for chosen in (known, known[:3], known[-2:]):
            line = bytes([place, 1]) + chunk(b"billing")
            for option in chosen:
                line += bytes([known.index(option)])
                if option not in texts.FLAGS:
                    line += chunk(values[option].encode())
            yield line


def all_seeds() -> dict[str, list[bytes]]:
    """Every target's seeds."""
    batches, envelopes, pairs = batch_values(), envelope_values(), record_pairs()
    token = Page(scope="s", size=1).cut(["projects/p/topics/a", "b"], str)[1].encode()
    names = [b"projects/p", *(name.encode() for name in (TOPIC, SNAPSHOT, *SUBSCRIPTIONS.values()))]
    size = (2**31 + 5).to_bytes(4, "little")
    frame_head = (
        bytes(6) + b"\1\0\0\0" + bytes(8) + b"\2\1" + chunk(b"a") + chunk(b"b") + b"\2\0\1\1\1\5"
    )
    return {
        "batch": [bytes([mode]) + one for one in batches for mode in (RAW, SEALED, FITTED)],
        "envelope": [bytes([mode]) + one for one in envelopes for mode in (0, 1)],
        "record": [chunk(key) + value for key, value in pairs],
        "state": [
            b"".join(chunk(key) + chunk(value) for key, value in pairs),
            *(chunk(key) + chunk(value) for key, value in pairs[:2]),
        ],
        "search": [
            b"".join(b"\1" + chunk(one) for one in batches),
            b"".join(b"\2" + chunk(one) for one in envelopes) + b"\1" + chunk(batches[1]),
            b"\0" + chunk(codec.MAGIC) + b"\1" + chunk(batches[0]),
        ],
        "publish": [b"\1" + one for one in publish_requests()]
        + [b"\0" + wire.HEAD + publish_requests()[3]],
        "frames": [frame_head + one for one in publish_requests()],
        "ack_ids": [
            b"\3\0\2\3\0\1\0\0\0" + bytes(8) + bytes(6),
            b"\3\0\1\3\0\1\0\0\0" + bytes(8) + chunk(b"0000000000ff") + b"\0" + chunk(b"x" * 52),
            b"\3\0\2\4\0\1\0\0\0" + bytes(8) + bytes(6),
        ],
        "message_id": [message_id(1, 0).encode(), message_id(77, 10**12 - 1).encode(), b"7"],
        "page_token": [
            size + chunk(b"s") + b"\0" + token,
            size + chunk(b"s") + b"\1projects/p/topics/a",
            size + chunk(b"s") + b"\0",
        ],
        "names": names,
        "patterns": list(pattern_stories()),
        "update_mask": list(update_requests()),
        "requests": list(request_stories()),
        "verbs": [
            bytes([place]) + b"\xff\xff\xff\xff" + bytes([place * step % 256] * 40)
            for place in range(server.PAUSE)
            for step in (3, 7)
        ],
        "stream": list(stream_stories()),
        "rest": list(rest_stories()),
        **surface_seeds.seeds(),
        **replay_seeds.seeds(),
        **http2_seeds.seeds(),
        **budget_seeds.seeds(),
        **credential_seeds.seeds(),
        "resources_file": [b"\1" + TOML, b"\0" + YAML, b"\0" + json_resources()],
        "config_file": [CONFIG, DATA_DIR],
        "environment": [b"PORT=1\nDRAIN_S=0.5\nMEMORY=yes", b"PROJECT=p\nLOG_LEVEL=info\nHOST=::1"],
        "option_values": [
            b"90", b"1m30s", b"7d", b"250ms", b"a=b\nc=d", b"2026-01-31T12:00:00Z", b"orders",
        ],
        "command_line": list(command_lines()),
        "filter_text": FILTERS,
        "filter_json": JSON_FILTERS,
    }  # fmt: skip


def json_resources() -> bytes:
    topic = {key: value for key, value in asdict(wire._TOPIC).items() if key == "labels"}
    return json.dumps({"topics": {"orders": topic}}).encode()


def main() -> None:
    for name, seeds in all_seeds().items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed-*"):
            old.unlink()
        for number, seed in enumerate(seeds):
            (folder / f"seed-{number:02d}").write_bytes(seed)


if __name__ == "__main__":
    main()
