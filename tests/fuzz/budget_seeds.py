"""Seeds of the targets under a budget: one for each verb and route, and those that multiplied.

See `fuzz.seeds`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from fanlog.v1 import jobs_pb2, log_pb2, replay_pb2, sink_pb2
from fanlog.wire import types
from fuzz.draw import chunk
from fuzz.targets import budgets
from fuzz.world import METHODS, SUBSCRIPTIONS, TOPIC

_PLAIN = SUBSCRIPTIONS["plain"]
_REQUESTS: dict[str, Any] = {
    "ListJobs": jobs_pb2.ListJobsRequest(parent="projects/test"),
    "CreateJob": jobs_pb2.CreateJobRequest(parent="projects/test", kind="verify"),
    "GetOffsets": log_pb2.GetOffsetsRequest(selection={"topics": [TOPIC]}),
    "GetRanges": log_pb2.GetRangesRequest(selection={"pattern": "projects/test/topics/#"}),
    "Reopen": replay_pb2.ReopenRequest(subscription=_PLAIN, message_ids=["1000000000000"]),
    "ListDeadLetters": replay_pb2.ListDeadLettersRequest(subscription=_PLAIN),
    "Redrive": replay_pb2.RedriveRequest(subscription=_PLAIN, all=True),
    "CommitEpoch": sink_pb2.CommitEpochRequest(query="q", epoch=1),
    "GetQuery": sink_pb2.GetQueryRequest(query="q"),
    "Publish": types.PublishRequest(topic=TOPIC, messages=[{"data": b"x"}]),
    "ListTopics": types.ListTopicsRequest(project="projects/test"),
    "CreateTopic": types.Topic(name="projects/test/topics/new", labels={"a": "b"}),
    "CreateSubscription": types.Subscription(
        name="projects/test/subscriptions/new", topic=TOPIC, filter='a = "b*c" AND payload.x < 3'
    ),
}


def request(
    method: str,
    head: bytes,
    part: bytes = b"",
    count: int = 0,
    tags: bytes = b"",
    tail: bytes = b"",
) -> bytes:
    # A name that two services have stands for the verb of the first.
    place = next(at for at, verb in enumerate(budgets.verbs()) if verb[1] == method)
    return bytes((place,)) + _multiplied(head, part, count, tags, tail)


def _multiplied(head: bytes, part: bytes, count: int, tags: bytes, tail: bytes) -> bytes:
    return chunk(head) + chunk(part) + chunk(tail) + count.to_bytes(2, "little") + chunk(tags)


def _verbs() -> Iterable[bytes]:
    for _, method in budgets.verbs():
        made = _REQUESTS.get(method)
        if made is None and method in METHODS:
            made = METHODS[method]()
        yield request(method, b"" if made is None else made.SerializeToString())
    topic = types.PublishRequest(topic=TOPIC).SerializeToString()
    named = types.Topic(name="projects/test/topics/new").SerializeToString()
    ids = types.AcknowledgeRequest(subscription=_PLAIN).SerializeToString()
    # Empty messages; attributes and unknown fields of one message; those of each message.
    yield request("Publish", topic, b"\x12\x00", 65_535)
    yield request("Publish", topic, b"\x12\x03\x0a\x01k", 65_535, b"\x12")
    yield request("Publish", topic, b"\x78\x01", 65_535, b"\x12")
    yield request("Publish", topic, b"\x12\x0b\x0a\x01x" + b"\x78\x01" * 4, 1_000)
    yield request("CreateTopic", named, b"\xf8\x07\x01", 65_535)
    yield request("CreateTopic", named, b"\x12\x03\x0a\x01k", 65_535)
    yield request("SetIamPolicy", b"\x0a\x1b" + TOPIC.encode(), b"\x22\x00", 65_535, b"\x12")
    yield request("SetIamPolicy", b"\x0a\x1b" + TOPIC.encode(), b"\x12\x00", 65_535, b"\x22\x12")
    yield request("Acknowledge", ids, b"\x12\x00", 65_535)
    yield request("Acknowledge", ids, b"\x12\x01x", 65_535)
    yield request("CommitEpoch", b"\x0a\x01q\x10\x01", b"\x1a\x00", 65_535)
    yield request("GetOffsets", b"", b"\x0a\x00", 65_535, b"\x0a")
    yield request("UpdateTopic", b"", b"\x0a\x06labels", 30_000, b"\x12")


def _route(
    http: str, path: str, body: bytes, part: bytes = b"", count: int = 0, tail: bytes = b""
) -> bytes:
    [place] = [
        at for at, one in enumerate(budgets.routes()) if (one.http, one.path) == (http, path)
    ]
    stars = path.count("*")
    return bytes((place,)) + bytes(stars) + chunk(b"") + _multiplied(body, part, count, b"", tail)


def _routes() -> Iterable[bytes]:
    for route in budgets.routes():
        yield _route(route.http, route.path, b"{}" if route.takes is not None else b"")
    publish = "/v1/{topic=projects/*/topics/*}:publish"
    policy = "/v1/{resource=projects/*/topics/*}:setIamPolicy"
    topic = "/v1/{name=projects/*/topics/*}"
    yield _route("POST", publish, b'{"messages":[{}', b",{}", 65_535, b"]}")
    yield _route("POST", publish, b'{"messages":[[]', b",[]", 65_535, b"]}")
    yield _route("POST", policy, b'{"policy":{"bindings":[{}', b",{}", 65_535, b"]}}")
    yield _route("PUT", topic, b'{"labels":{"a":"b"', b',"a":""', 65_535, b"}}")
    yield _route("POST", "/v1/events", b"[1", b",1", 65_535, b"]") + b"\2"
    yield _route("POST", "/v1/{parent=projects/*}/jobs", b'{"arguments":', b'{"a":', 1_000)
    event = json.dumps({"specversion": "1.0", "id": "1", "source": "s", "type": "orders"})
    yield _route("POST", "/v1/events", event.encode()) + b"\1"


def seeds() -> dict[str, list[bytes]]:
    return {"every_verb": list(_verbs()), "every_route": list(_routes())}
