"""A small project: topics, messages, dead letters, a schema and a job, as programs make them."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import requests

from acceptance.served import PATIENCE_S, Served

P = "projects/fanlog"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
CURRENCY = {"name": "currency", "type": "string", "default": "EUR"}


def call(
    server: Served, method: str, path: str, body: Any = None, **headers: str
) -> dict[str, Any]:
    if body is None:
        return _answer(requests.request(method, f"http://{server.http}{path}", timeout=PATIENCE_S))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return _answer(
        requests.request(
            method, f"http://{server.http}{path}", json=body, headers=named, timeout=PATIENCE_S
        )
    )


def _answer(answer: requests.Response) -> dict[str, Any]:
    assert answer.ok, answer.text
    found: dict[str, Any] = answer.json() if answer.content else {}
    return found


def data(value: Any) -> str:
    return base64.b64encode(
        value if isinstance(value, bytes) else json.dumps(value).encode()
    ).decode()


def publish(server: Served, topic: str, *messages: dict[str, Any]) -> list[str]:
    answer = call(server, "POST", f"/v1/{P}/topics/{topic}:publish", {"messages": messages})
    found: list[str] = answer["messageIds"]
    return found


def make(server: Served, topic: str, *subscriptions: str, **settings: Any) -> None:
    """A topic, if it is not there, and subscriptions of it."""
    if (
        requests.get(f"http://{server.http}/v1/{P}/topics/{topic}", timeout=PATIENCE_S).status_code
        == 404
    ):
        call(server, "PUT", f"/v1/{P}/topics/{topic}", {"messageRetentionDuration": "86400s"})
    for name in subscriptions:
        body = {"topic": f"{P}/topics/{topic}"} | settings
        call(server, "PUT", f"/v1/{P}/subscriptions/{name}", body)


def fail(server: Served, subscription: str, reason: str, count: int) -> None:
    """Pull some messages, and nack them for good."""
    path = f"/v1/{P}/subscriptions/{subscription}"
    pulled = call(server, "POST", f"{path}:pull", {"maxMessages": count, "returnImmediately": True})
    ack_ids = [one["ackId"] for one in pulled["receivedMessages"]]
    assert len(ack_ids) == count
    call(
        server, "POST", f"{path}:modifyAckDeadline", {"ackIds": ack_ids, "ackDeadlineSeconds": 0},
        fanlog_requeue="false", fanlog_reason=reason,
    )  # fmt: skip


def pipeline(server: Served, name: str = "host-1", error: str = "the bucket is gone") -> None:
    """Say what a pipeline would say of itself."""
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    call(server, "POST", "/v1/pipelines:report", {"pipeline": {
        "name": name, "version": "1.0", "sparkVersion": "4.0.1", "master": "local[2]",
        "parallelism": 2, "startTime": now,
        "flows": [
            {"name": "archive", "state": "RUNNING", "startTime": now, "batch": "7"},
            {"name": "export", "state": "RESTING", "startTime": now, "failures": "2",
             "failureTime": now, "error": error},
        ],
    }})  # fmt: skip


def fill(server: Served) -> None:
    make(server, "orders-dead", "letters")
    dead = {"deadLetterTopic": f"{P}/topics/orders-dead", "maxDeliveryAttempts": 5}
    make(server, "orders", "billing", deadLetterPolicy=dead)
    make(server, "orders", "warehouse", filter="region = eu-* AND payload.amount > 100")
    for number in range(60):
        publish(server, "orders", {
            "data": data({"order": number, "amount": number * 5}),
            "attributes": {"region": "eu-west" if number % 2 else "us-east"},
        })  # fmt: skip
    fail(server, "billing", "no such order", 6)
    fail(server, "billing", "card declined", 4)
    call(
        server,
        "POST",
        f"/v1/{P}/schemas?schemaId=order",
        {"type": "AVRO", "definition": json.dumps(ORDER)},
    )
    later = ORDER | {"fields": [*ORDER["fields"], CURRENCY]}  # type: ignore[misc]
    call(server, "POST", f"/v1/{P}/schemas/order:commit", {
        "schema": {"type": "AVRO", "definition": json.dumps(later)},
    })  # fmt: skip
    call(server, "POST", f"/v1/{P}/alerts?alertId=full", {"condition": "DISK_LOW", "limit": "9"})
    call(server, "POST", f"/v1/{P}/schedules?scheduleId=daily", {
        "topic": f"{P}/topics/orders", "cron": "@yearly", "data": data({"order": 0}),
    })  # fmt: skip
    pipeline(server)
    call(server, "POST", f"/v1/{P}/jobs", {"kind": "verify", "jobId": "tonight"})
