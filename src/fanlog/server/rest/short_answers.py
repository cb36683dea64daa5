"""Answers of the short form, from those of gRPC."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import orjson

from fanlog import limits
from fanlog.model import endpoints
from fanlog.model.resources import PUSH_BODIES
from fanlog.server import remarks
from fanlog.server.rest import json_out
from fanlog.server.rest import short_shapes as shapes
from fanlog.server.rest.route import Asked
from fanlog.wire import types

Body = dict[str, Any]


def short_name(name: str, project: str) -> str:
    """The id of a resource of the own project; others, and deleted topics, as they are."""
    parts = name.split("/")
    return parts[3] if len(parts) == 4 and parts[1] == project else name


def short_resource(message: Any, project: str) -> Body:
    found: Body = json_out.resource(message, snake_case=True)
    for field in ("name", "topic"):
        if field in found:
            found[field] = short_name(found[field], project)
    if "schema_settings" in found:
        settings = found["schema_settings"]
        settings["schema"] = short_name(settings["schema"], project)
    return found


def short_subscription(message: Any, project: str) -> Body:
    found = short_resource(message, project)
    push = found.pop("push_config", {})
    is_export = "bigquery_config" in found or "cloud_storage_config" in found
    found["mode"] = "push" if push.get("push_endpoint") else "export" if is_export else "pull"
    if found["mode"] == "push":
        found["delivery_url"] = push["push_endpoint"]
    _show_settings(found, push)
    policy = found.pop("dead_letter_policy", None)
    if policy is not None:
        found["dead_letter"] = {
            "topic": short_name(policy["dead_letter_topic"], project),
            "max_delivery_attempts": policy["max_delivery_attempts"],
        }
    return found


def _show_settings(found: Body, push: Body) -> None:
    """Show the labels that are fields here; of those that push has, also what is so by default."""
    labels = found.get("labels", {})
    url = push.get("push_endpoint", "")
    if endpoints.is_web(url) and "no_wrapper" not in push:
        found["push_body"] = PUSH_BODIES[0]
    if endpoints.is_web(url) or endpoints.is_grpc(url):
        found["push_timeout_seconds"] = limits.PUSH_TIMEOUT_S_DEFAULT
    for name, (label, kind) in shapes.SETTINGS.items():
        if label in labels:
            found[name] = kind(labels[label])


def resource(of: Any, short: Callable[[Any, str], Body], raw: bytes, asked: Asked) -> Body:
    found: Body = _told(short, of.FromString(raw), asked)
    hints = [text for key, text in asked.said if key == remarks.HINT]
    return found | {"hints": hints} if hints else found


def page(of: Any, key: str, short: Callable[[Any, str], Any], raw: bytes, asked: Asked) -> Body:
    message = of.FromString(raw)
    found: Body = {key: [_told(short, one, asked) for one in getattr(message, key)]}
    if message.next_page_token:
        found["next_page_token"] = message.next_page_token
    return found


def _told(short: Callable[[Any, str], Any], one: Any, asked: Asked) -> Any:
    """An entry of an answer, with what else is known of it."""
    found = short(one, asked.project)
    return found | asked.facts.of(one) if asked.facts and isinstance(found, dict) else found


def published(raw: bytes, _: Asked) -> Body:
    return json_out.published(raw, "message_ids")


def pulled(raw: bytes, _: Asked) -> Body:
    times = json_out.PublishTimes()
    received = types.PullResponse.FromString(raw).received_messages
    return {"received_messages": [_short_received(one, times) for one in received]}


def _short_received(one: Any, times: json_out.PublishTimes) -> Body:
    message = one.message
    found: Body = {
        "ack_id": one.ack_id,
        "message": {
            "id": message.message_id,
            "data": b64encode(message.data).decode("ascii"),
            "attributes": dict(message.attributes),
            "ordering_key": message.ordering_key,
            "publish_time": times.text(message.publish_time),
        },
    }
    if one.delivery_attempt:
        found["delivery_attempt"] = one.delivery_attempt
    return found


def position(raw: bytes, asked: Asked) -> Body:
    """Where a subscription stands."""
    found = orjson.loads(raw)
    return {
        "subscription": short_name(found["subscription"], asked.project),
        "topic": short_name(found["topic"], asked.project),
        "position": found["position"],
        "unacked_messages": found["unackedMessages"],
        "outstanding_messages": found["outstandingMessages"],
        "oldest_unacked_age": found["oldestUnackedAge"],
    }


def nothing(_: bytes, __: Asked) -> None:
    return None
