"""The forms of REST as surfaces, each written by hand."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import requests
from google.protobuf import json_format

from fanlog.config import PROJECT_DEFAULT as PROJECT
from fanlog.wire import types
from server.conftest import PATIENCE_S, RunningServer
from server.rest.surfaces import Received, Refused, snapshot_name, subscription_name, topic_name


class GoogleJson:
    """Google's JSON API, by hand."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._session = requests.Session()

    def close(self) -> None:
        self._session.close()

    #: Sent with every request.
    headers: Mapping[str, str] = {}

    def call(self, http: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send a request; its JSON answer."""
        response = self._session.request(
            http,
            self._server.http(path),
            json=body,
            params=query,
            headers=dict(self.headers),
            timeout=PATIENCE_S,
        )
        if response.status_code >= 400:
            assert response.headers["content-type"] == "application/json"
            error = response.json()["error"]
            assert error["code"] == response.status_code
            [detail] = error["details"]
            raise Refused(error["status"], response.status_code, detail["reason"], error["message"])
        return response.json() if response.content else None

    def _shown(self, of: Any, answer: Any) -> Any:
        # As strictly as protobuf itself reads JSON.
        message = json_format.ParseDict(answer, of())
        return json_format.MessageToDict(message, preserving_proto_field_name=True)

    def _listed(self, path: str, key: str, page_size: int = 100) -> list[Any]:
        found: list[Any] = []
        token = ""
        while True:
            page = self.call("GET", path, pageSize=page_size, pageToken=token)
            assert len(page.get(key, [])) <= page_size
            found += page.get(key, [])
            token = page.get("nextPageToken", "")
            if not token:
                return found

    def create_topic(self, topic: str, **fields: Any) -> Any:
        return self._shown(types.Topic, self.call("PUT", f"/v1/{topic_name(topic)}", fields))

    def get_topic(self, topic: str) -> Any:
        return self._shown(types.Topic, self.call("GET", f"/v1/{topic_name(topic)}"))

    def update_topic(self, topic: str, **fields: Any) -> Any:
        body = {"topic": fields, "updateMask": ",".join(fields)}
        return self._shown(types.Topic, self.call("PATCH", f"/v1/{topic_name(topic)}", body))

    def delete_topic(self, topic: str) -> None:
        assert self.call("DELETE", f"/v1/{topic_name(topic)}") == {}

    def list_topics(self, page_size: int = 100) -> list[str]:
        path = f"/v1/projects/{PROJECT}/topics"
        return [one["name"] for one in self._listed(path, "topics", page_size)]

    def list_topic_subscriptions(self, topic: str) -> list[str]:
        return self._listed(f"/v1/{topic_name(topic)}/subscriptions", "subscriptions")

    def publish(self, topic: str, *messages: Mapping[str, Any]) -> list[str]:
        path = self._verb(topic_name(topic), "publish")
        return list(self.call("POST", path, {"messages": _encoded(messages)})["messageIds"])

    def _verb(self, name: str, verb: str) -> str:
        return f"/v1/{name}:{verb}"

    def create_subscription(self, subscription: str, topic: str, **fields: Any) -> Any:
        body = {"topic": topic_name(topic), **fields}
        found = self.call("PUT", f"/v1/{subscription_name(subscription)}?alt=json", body)
        return self._shown(types.Subscription, found)

    def get_subscription(self, subscription: str) -> Any:
        found = self.call("GET", f"/v1/{subscription_name(subscription)}")
        return self._shown(types.Subscription, found)

    def update_subscription(self, subscription: str, **fields: Any) -> Any:
        body = {"subscription": fields, "updateMask": ",".join(fields)}
        found = self.call("PATCH", f"/v1/{subscription_name(subscription)}", body)
        return self._shown(types.Subscription, found)

    def delete_subscription(self, subscription: str) -> None:
        assert self.call("DELETE", f"/v1/{subscription_name(subscription)}") == {}

    def detach(self, subscription: str) -> None:
        assert self.call("POST", f"/v1/{subscription_name(subscription)}:detach") == {}

    def list_subscriptions(self, page_size: int = 100) -> list[str]:
        path = f"/v1/projects/{PROJECT}/subscriptions"
        return [one["name"] for one in self._listed(path, "subscriptions", page_size)]

    def pull(self, subscription: str, max_messages: int = 100, *, wait: bool = False) -> Any:
        body = {"maxMessages": max_messages, "returnImmediately": not wait}
        found = self.call("POST", self._verb(subscription_name(subscription), "pull"), body)
        return _google_received(found)

    def ack(self, subscription: str, ack_ids: list[str]) -> None:
        path = self._verb(subscription_name(subscription), "acknowledge")
        assert self.call("POST", path, {"ackIds": ack_ids}) == {}

    def modify(self, subscription: str, ack_ids: list[str], seconds: int) -> None:
        path = self._verb(subscription_name(subscription), "modifyAckDeadline")
        body = {"ackIds": ack_ids, "ackDeadlineSeconds": seconds}
        assert self.call("POST", path, body) == {}

    def nack(self, subscription: str, ack_ids: list[str]) -> None:
        self.modify(subscription, ack_ids, 0)

    def create_snapshot(self, snapshot: str, subscription: str, **fields: Any) -> Any:
        body = {"subscription": subscription_name(subscription), **fields}
        found = self.call("PUT", f"/v1/{snapshot_name(snapshot)}", body)
        return self._shown(types.Snapshot, found)

    def get_snapshot(self, snapshot: str) -> Any:
        return self._shown(types.Snapshot, self.call("GET", f"/v1/{snapshot_name(snapshot)}"))

    def update_snapshot(self, snapshot: str, **fields: Any) -> Any:
        body = {"snapshot": fields, "updateMask": ",".join(fields)}
        found = self.call("PATCH", f"/v1/{snapshot_name(snapshot)}", body)
        return self._shown(types.Snapshot, found)

    def delete_snapshot(self, snapshot: str) -> None:
        assert self.call("DELETE", f"/v1/{snapshot_name(snapshot)}") == {}

    def list_snapshots(self) -> list[str]:
        found = self._listed(f"/v1/projects/{PROJECT}/snapshots", "snapshots")
        return [one["name"] for one in found]

    def seek_to_time(self, subscription: str, time: str) -> None:
        path = self._verb(subscription_name(subscription), "seek")
        self._sought(self.call("POST", path, {"time": time}))

    def seek_to_snapshot(self, subscription: str, snapshot: str) -> None:
        path = self._verb(subscription_name(subscription), "seek")
        self._sought(self.call("POST", path, {"snapshot": snapshot_name(snapshot)}))

    def _sought(self, found: Any) -> None:
        assert found == {}


class PathForm(GoogleJson):
    """The path form; what it has no path for is Google's."""

    # PUT would replace what exists.
    headers: Mapping[str, str] = {"if-none-match": "*"}

    def _verb(self, name: str, verb: str) -> str:
        return f"/v1/{name}/{verb}"

    def _sought(self, found: Any) -> None:
        assert "reopened" in found

    def create_subscription(self, subscription: str, topic: str, **fields: Any) -> Any:
        body = {"topic": topic, **fields}
        found = self.call("PUT", f"/v1/{subscription_name(subscription)}", body)
        assert found.pop("createdAt")
        return self._shown(types.Subscription, found)

    def pull(self, subscription: str, max_messages: int = 100, *, wait: bool = False) -> Any:
        path = self._verb(subscription_name(subscription), "pull")
        now = "false" if wait else "true"
        found = self.call("POST", path, maxMessages=max_messages, returnImmediately=now)
        return _google_received(found)


class Short(GoogleJson):
    """The short form."""

    def _topic(self, answer: Any) -> Any:
        found = answer | {"name": topic_name(answer["name"])}
        assert found.pop("created_at")
        assert found.pop("partition_count") == 1
        kept_s = found.pop("retention_seconds", None)
        assert (kept_s is None) == ("message_retention_duration" not in found)
        own = found.get("message_retention_duration")
        kept = found.pop("effective_retention")
        assert kept == {"duration": own or "604800s", "by": "topic" if own else "server"}
        return self._shown(types.Topic, found)

    def create_topic(self, topic: str, **fields: Any) -> Any:
        return self._topic(self.call("POST", "/v1/topics", {"name": topic, **fields}))

    def get_topic(self, topic: str) -> Any:
        return self._topic(self.call("GET", f"/v1/topics/{topic}"))

    def update_topic(self, topic: str, **fields: Any) -> Any:
        return self._topic(self.call("PATCH", f"/v1/topics/{topic}", fields))

    def delete_topic(self, topic: str) -> None:
        assert self.call("DELETE", f"/v1/topics/{topic}") is None

    def _listed(self, path: str, key: str, page_size: int = 100) -> list[Any]:
        found: list[Any] = []
        token = ""
        while True:
            page = self.call("GET", path, page_size=page_size, page_token=token)
            assert len(page[key]) <= page_size
            found += page[key]
            token = page.get("next_page_token", "")
            if not token:
                return found

    def list_topics(self, page_size: int = 100) -> list[str]:
        found = self._listed("/v1/topics", "topics", page_size)
        return [topic_name(one["name"]) for one in found]

    def list_topic_subscriptions(self, topic: str) -> list[str]:
        found = self._listed(f"/v1/topics/{topic}/subscriptions", "subscriptions")
        return [subscription_name(one) for one in found]

    def publish(self, topic: str, *messages: Mapping[str, Any]) -> list[str]:
        body = {"messages": _encoded(messages)}
        return list(self.call("POST", f"/v1/topics/{topic}:publish", body)["message_ids"])

    def _subscription(self, answer: Any) -> Any:
        found = dict(answer)
        found["name"] = subscription_name(found["name"])
        found["topic"] = topic_name(found["topic"])
        assert found.pop("created_at")
        assert f"{found.pop('retention_seconds')}s" == found["message_retention_duration"]
        mode, url = found.pop("mode"), found.pop("delivery_url", "")
        is_export = "bigquery_config" in found or "cloud_storage_config" in found
        assert mode == ("push" if url else "export" if is_export else "pull")
        if url:
            found["push_config"] = {"push_endpoint": url}
        for field in ("retry", "push_body", "push_timeout_seconds"):
            found.pop(field, None)
        if found.get("max_outstanding_messages") == 1_000:
            # The default of this form.
            del found["max_outstanding_messages"]
            labels = dict(found.pop("labels"))
            assert labels.pop("fanlog-max-outstanding-messages") == "1000"
            found |= {"labels": labels} if labels else {}
        if "dead_letter" in found:
            policy = found.pop("dead_letter")
            found["dead_letter_policy"] = {
                "dead_letter_topic": topic_name(policy["topic"]),
                "max_delivery_attempts": policy["max_delivery_attempts"],
            }
        return self._shown(types.Subscription, found)

    def _short(self, fields: dict[str, Any]) -> dict[str, Any]:
        policy = fields.pop("dead_letter_policy", None)
        if policy is not None:
            fields["dead_letter"] = {
                "topic": policy["dead_letter_topic"].rpartition("/")[2],
                "max_delivery_attempts": policy["max_delivery_attempts"],
            }
        push = fields.pop("push_config", None)
        if push is not None:
            url = push.get("push_endpoint")
            fields |= {"mode": "push", "delivery_url": url} if url else {"mode": "pull"}
        return fields

    def create_subscription(self, subscription: str, topic: str, **fields: Any) -> Any:
        body = {"name": subscription, "topic": topic, **self._short(fields)}
        return self._subscription(self.call("POST", "/v1/subscriptions", body))

    def get_subscription(self, subscription: str) -> Any:
        return self._subscription(self.call("GET", f"/v1/subscriptions/{subscription}"))

    def update_subscription(self, subscription: str, **fields: Any) -> Any:
        path = f"/v1/subscriptions/{subscription}"
        return self._subscription(self.call("PATCH", path, self._short(fields)))

    def delete_subscription(self, subscription: str) -> None:
        assert self.call("DELETE", f"/v1/subscriptions/{subscription}") is None

    def _do(self, subscription: str, verb: str, body: Any = None) -> Any:
        return self.call("POST", f"/v1/subscriptions/{subscription}:{verb}", body)

    def detach(self, subscription: str) -> None:
        assert self._do(subscription, "detach") is None

    def list_subscriptions(self, page_size: int = 100) -> list[str]:
        found = self._listed("/v1/subscriptions", "subscriptions", page_size)
        return [subscription_name(one["name"]) for one in found]

    def pull(self, subscription: str, max_messages: int = 100, *, wait: bool = False) -> Any:
        body = {"max_messages": max_messages, "return_immediately": not wait}
        found = self._do(subscription, "pull", body)
        return [
            Received(
                ack_id=one["ack_id"],
                data=base64.b64decode(one["message"]["data"]),
                attributes=one["message"]["attributes"],
                ordering_key=one["message"]["ordering_key"],
                message_id=one["message"]["id"],
                attempt=one.get("delivery_attempt", 0),
            )
            for one in found["received_messages"]
        ]

    def ack(self, subscription: str, ack_ids: list[str]) -> None:
        assert self._do(subscription, "ack", {"ack_ids": ack_ids}) is None

    def modify(self, subscription: str, ack_ids: list[str], seconds: int) -> None:
        body = {"ack_ids": ack_ids, "ack_deadline_seconds": seconds}
        assert self._do(subscription, "modify_ack_deadline", body) is None

    def nack(self, subscription: str, ack_ids: list[str]) -> None:
        assert self._do(subscription, "nack", {"ack_ids": ack_ids}) is None

    def _snapshot(self, answer: Any) -> Any:
        names = {"name": snapshot_name(answer["name"]), "topic": topic_name(answer["topic"])}
        return self._shown(types.Snapshot, answer | names)

    def create_snapshot(self, snapshot: str, subscription: str, **fields: Any) -> Any:
        body = {"name": snapshot, "subscription": subscription, **fields}
        return self._snapshot(self.call("POST", "/v1/snapshots", body))

    def get_snapshot(self, snapshot: str) -> Any:
        return self._snapshot(self.call("GET", f"/v1/snapshots/{snapshot}"))

    def update_snapshot(self, snapshot: str, **fields: Any) -> Any:
        return self._snapshot(self.call("PATCH", f"/v1/snapshots/{snapshot}", fields))

    def delete_snapshot(self, snapshot: str) -> None:
        assert self.call("DELETE", f"/v1/snapshots/{snapshot}") is None

    def list_snapshots(self) -> list[str]:
        return [snapshot_name(one["name"]) for one in self._listed("/v1/snapshots", "snapshots")]

    def seek_to_time(self, subscription: str, time: str) -> None:
        assert "reopened" in self._do(subscription, "seek", {"time": time})

    def seek_to_snapshot(self, subscription: str, snapshot: str) -> None:
        assert "reopened" in self._do(subscription, "seek", {"snapshot": snapshot})


def _encoded(messages: tuple[Mapping[str, Any], ...]) -> list[dict[str, Any]]:
    return [
        {
            key: base64.b64encode(value).decode() if key == "data" else value
            for key, value in message.items()
        }
        for message in messages
    ]


def _google_received(answer: Any) -> list[Received]:
    json_format.ParseDict(answer, types.PullResponse())
    return [
        Received(
            ack_id=one["ackId"],
            data=base64.b64decode(one["message"].get("data", "")),
            attributes=one["message"].get("attributes", {}),
            ordering_key=one["message"].get("orderingKey", ""),
            message_id=one["message"]["messageId"],
            attempt=one.get("deliveryAttempt", 0),
        )
        for one in answer.get("receivedMessages", [])
    ]
