"""Settings of subscriptions and topics, said on every surface that makes or changes them.

A setting is given as Google's JSON has it, in snake_case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
from google.api_core.exceptions import GoogleAPICallError
from google.protobuf import json_format

from fanlog.client import CallFailed, Client
from fanlog.config import PROJECT_DEFAULT
from fanlog.errors import ConfigError
from fanlog.server.resource_file import ensure_resources, read_resources
from fanlog.wire import types
from server.asking_surfaces import Refused, Unsaid, command, rest

Settings = Mapping[str, Any]
#: Makes a subscription of that name, with settings that its topic is one of.
Create = Callable[[Any, str, Settings, Path], None]
#: Gives a subscription of that name these settings.
Update = Callable[[Any, str, Settings], None]

#: Fields of the short form that stand for labels, those of whole numbers apart.
_SHORT_TEXTS = {
    "fanlog-delivery": "delivery",
    "fanlog-retry": "retry",
    "fanlog-expired": "expired",
    "fanlog-dependency-policy": "dependency_policy",
    "fanlog-assignment": "assignment",
    "fanlog-backlog-policy": "backlog_policy",
    "fanlog-backlog-fallback": "backlog_fallback",
    "fanlog-backlog-group": "backlog_group",
    "fanlog-fairness": "fairness",
}
_SHORT_NUMBERS = {
    "fanlog-ttl": "message_ttl_seconds",
    "fanlog-dependency-timeout": "dependency_timeout_seconds",
    "fanlog-slots": "slots",
    "fanlog-backlog-messages": "backlog_messages",
    "fanlog-backlog-bytes": "backlog_bytes",
    "fanlog-backlog-age": "backlog_age_seconds",
    "fanlog-backlog-block": "backlog_block_seconds",
    "fanlog-backlog-summaries": "backlog_summaries_seconds",
    "fanlog-max-outstanding-messages": "max_outstanding_messages",
    "fanlog-max-outstanding-bytes": "max_outstanding_bytes",
    "fanlog-push-rate": "push_rate",
    "fanlog-push-breaker-failures": "push_breaker_failures",
    "fanlog-push-breaker-wait": "push_breaker_wait_seconds",
    "fanlog-push-breaker-max-wait": "push_breaker_max_wait_seconds",
}
_SHORT_PARTS = {"fanlog-backlog-high": "backlog_high", "fanlog-backlog-low": "backlog_low"}
_SHORT_FLAGS = {"fanlog-backlog-critical": "backlog_critical"}
_SHORT = _SHORT_TEXTS | _SHORT_NUMBERS | _SHORT_PARTS | _SHORT_FLAGS
_FIXED = ("fanlog-assignment", "fanlog-slots", "fanlog-fairness")
#: Settings of push, which the short form and the command line take only beside an endpoint.
_PUSH = "fanlog-push-"
#: What the short form calls what a sentence begins with.
SHORT_NAMES = {
    **{f"label {label}": field for label, field in _SHORT.items()},
    "dead_letter_policy": "dead_letter",
    "push_config.push_endpoint": "delivery_url",
}
#: Options of the command line that stand for labels.
_OPTIONS = {
    "fanlog-delivery": "--delivery",
    "fanlog-retry": "--retry",
    "fanlog-expired": "--expired",
    "fanlog-dependency-policy": "--dependency-policy",
    "fanlog-slots": "--slots",
    **{
        f"fanlog-backlog-{name}": f"--backlog-{name}"
        for name in ("policy", "fallback", "group", "messages", "bytes", "high", "low")
    },
}
_NUMBERS = {
    "fanlog-max-outstanding-messages": "--max-outstanding-messages",
    "fanlog-max-outstanding-bytes": "--max-outstanding-bytes",
    "fanlog-push-rate": "--push-rate",
    "fanlog-push-breaker-failures": "--push-breaker-failures",
}
_DURATIONS = {
    "fanlog-ttl": "--message-ttl",
    "fanlog-dependency-timeout": "--dependency-timeout",
    **{f"fanlog-backlog-{name}": f"--backlog-{name}" for name in ("age", "block", "summaries")},
    **{f"fanlog-push-breaker-{name}": f"--push-breaker-{name}" for name in ("wait", "max-wait")},
}
_FLAGS = {
    ("fanlog-backlog-critical", "true"): ["--backlog-critical"],
    ("fanlog-assignment", "sticky"): ["--sticky"],
    ("fanlog-ordering", "strict"): ["--strict-order"],
    ("fanlog-dead-letter", "auto"): ["--dead-letter", "auto"],
    ("fanlog-dead-letter", "none"): ["--no-dead-letter"],
}
_FIELD_FLAGS = {
    "enable_exactly_once_delivery": "--exactly-once",
    "enable_message_ordering": "--ordering",
    "retain_acked_messages": "--retain-acked",
}


def _message(name: str, settings: Settings) -> Any:
    wanted = {"name": name, **settings}
    return json_format.ParseDict(wanted, types.Subscription())


class ByGrpc:
    """Google's own client."""

    def create(self, server: Any, name: str, settings: Settings, _: Path) -> None:
        request = gapic.Subscription.from_json(json.dumps({"name": name, **settings}))
        self._call(server.subscriber.create_subscription, request)

    def update(self, server: Any, name: str, settings: Settings) -> None:
        changed = gapic.Subscription.from_json(json.dumps({"name": name, **settings}))
        request = {"subscription": changed, "update_mask": {"paths": list(settings)}}
        self._call(server.subscriber.update_subscription, request)

    def _call(self, verb: Any, request: Any) -> None:
        try:
            verb(request=request, retry=None)
        except GoogleAPICallError as error:
            raise Refused(error.message) from error


class ByPython:
    """Our client for Python."""

    def create(self, server: Any, name: str, settings: Settings, _: Path) -> None:
        self._call(server, lambda client: client.create_subscription(_message(name, settings)))

    def update(self, server: Any, name: str, settings: Settings) -> None:
        changed = _message(name, settings)
        self._call(server, lambda client: client.update_subscription(changed, list(settings)))

    def _call(self, server: Any, verb: Callable[[Client], object]) -> None:
        try:
            with Client(server.endpoint) as client:
                verb(client)
        except CallFailed as failure:
            raise Refused(failure.message) from failure


class ByGoogleForm:
    """Google's JSON over REST."""

    def create(self, server: Any, name: str, settings: Settings, _: Path) -> None:
        rest(server, "PUT", f"/v1/{name}", settings)

    def update(self, server: Any, name: str, settings: Settings) -> None:
        body = {"subscription": settings, "updateMask": ",".join(settings)}
        rest(server, "PATCH", f"/v1/{name}", body)


class ByShortForm:
    """Our own form of REST: its fields where it has some."""

    def create(self, server: Any, name: str, settings: Settings, _: Path) -> None:
        body = {"name": name.rpartition("/")[2], **self._short(settings, is_new=True)}
        rest(server, "POST", "/v1/subscriptions", body)

    def update(self, server: Any, name: str, settings: Settings) -> None:
        path = f"/v1/subscriptions/{name.rpartition('/')[2]}"
        rest(server, "PATCH", path, self._short(settings, is_new=False))

    def _short(self, settings: Settings, *, is_new: bool) -> dict[str, Any]:
        body = dict(settings)
        labels: dict[str, str] = {}
        for label, text in body.pop("labels", {}).items():
            if (label in _FIXED and not is_new) or (
                label.startswith(_PUSH) and is_new and "push_config" not in settings
            ):
                labels[label] = text
            elif label in _SHORT_TEXTS:
                body[_SHORT_TEXTS[label]] = text
            elif label in _SHORT_NUMBERS and re.fullmatch(r"-?\d+", text):
                body[_SHORT_NUMBERS[label]] = int(text)
            elif label in _SHORT_PARTS:
                body[_SHORT_PARTS[label]] = json.loads(text)
            elif label in _SHORT_FLAGS and text in ("true", "false"):
                body[_SHORT_FLAGS[label]] = text == "true"
            else:
                labels[label] = text
        if labels or ("labels" in settings and not settings["labels"]):
            body["labels"] = labels
        if "dead_letter_policy" in body:
            body["dead_letter"] = {"topic": body.pop("dead_letter_policy")["dead_letter_topic"]}
        if "push_config" in body:
            body["mode"] = "push"
            body["delivery_url"] = body.pop("push_config")["push_endpoint"]
        if "bigquery_config" in body or "cloud_storage_config" in body:
            body["mode"] = "export"
        return body


class ByCommand:
    """`fanlog sub create` and `fanlog sub update`, by their options or by `--label`."""

    def __init__(self, has_options: bool) -> None:
        self._has_options = has_options

    def create(self, server: Any, name: str, settings: Settings, _: Path) -> None:
        command(server, "sub", "create", name, *self._words(settings, is_new=True))

    def update(self, server: Any, name: str, settings: Settings) -> None:
        if not self._has_options:
            raise Unsaid("sub update has no --label")
        command(server, "sub", "update", name, *self._words(settings, is_new=False))

    def _words(self, settings: Settings, *, is_new: bool) -> list[str]:
        words: list[str] = []
        for field, value in settings.items():
            if field == "labels":
                has_endpoint = "push_config" in settings
                for label, text in value.items():
                    if label.startswith(_PUSH) and is_new and not has_endpoint:
                        words += ["--label", f"{label}={text}"]
                    else:
                        words += self._label(label, text, is_new)
            elif field in _FIELD_FLAGS:
                words.append(_FIELD_FLAGS[field])
            elif field == "dead_letter_policy":
                words += ["--dead-letter", value["dead_letter_topic"]]
            elif field == "retry_policy":
                words += ["--min-backoff", value["minimum_backoff"]]
            elif field == "push_config":
                words += ["--push", value["push_endpoint"]]
            elif field == "bigquery_config":
                words += ["--table", value["table"]]
            elif field == "cloud_storage_config":
                words += ["--bucket", value["bucket"]]
            else:
                words += [f"--{field}", value]
        if not words:
            raise Unsaid("nothing to say")
        return words

    def _label(self, label: str, text: str, is_new: bool) -> list[str]:
        if self._has_options:
            if (label, text) in _FLAGS and is_new:
                return _FLAGS[label, text]
            if label == "fanlog-slots" and not (is_new and re.fullmatch(r"\d+", text)):
                raise Unsaid(label)
            if label in _NUMBERS and re.fullmatch(r"-?\d+", text):
                return [_NUMBERS[label], text]
            if label == "fanlog-fairness" and is_new:
                return ["--fairness", text]
            if label in _OPTIONS:
                return [_OPTIONS[label], text]
            if label in _DURATIONS and re.fullmatch(r"\d+", text):
                return [_DURATIONS[label], text]
        if not is_new:
            raise Unsaid(label)
        return ["--label", f"{label}={text}"]


class ByFile:
    """`--resources FILE`: it makes what is missing, and changes nothing."""

    def create(self, server: Any, name: str, settings: Settings, folder: Path) -> None:
        # JSON is YAML.
        ensured(server, folder, {"subscriptions": {name: dict(settings)}})

    def update(self, server: Any, name: str, settings: Settings) -> None:
        raise Unsaid("a file changes nothing")


def ensured(server: Any, folder: Path, content: Any) -> None:
    """Have the resources of a file made."""
    path = folder / "resources.yaml"
    path.write_text(json.dumps(content))
    try:
        server.run(ensure_resources(server.broker, read_resources(path, PROJECT_DEFAULT)))
    except ConfigError as error:
        raise Refused(str(error)) from error


SETTING: Mapping[str, Any] = {
    "grpc": ByGrpc(),
    "python": ByPython(),
    "google": ByGoogleForm(),
    "short": ByShortForm(),
    "options": ByCommand(has_options=True),
    "labels": ByCommand(has_options=False),
    "file": ByFile(),
}
