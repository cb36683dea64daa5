"""Labels of topics, said on every surface that makes or changes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from fanlog.client import CallFailed, Client
from fanlog.wire import types
from server.asking_surfaces import Refused, Unsaid, command, rest
from server.setting_surfaces import ensured

Labels = Mapping[str, str]

ORDERING = "fanlog-ordering"
#: Fields of the short form and options of the command line, both of whole numbers.
_RATES = {
    f"fanlog-{name}": name
    for name in ("publish-rate", "publish-burst", "publish-bytes-rate", "publish-bytes-burst")
}
#: What the short form calls what a sentence begins with.
SHORT_NAMES = {f"label {label}": name.replace("-", "_") for label, name in _RATES.items()}


class ByGrpc:
    def create(self, server: Any, name: str, labels: Labels, _: Path) -> None:
        topic = {"name": name, "labels": labels}
        self._call(lambda: server.publisher.create_topic(request=topic))

    def update(self, server: Any, name: str, labels: Labels) -> None:
        request = {"topic": {"name": name, "labels": labels}, "update_mask": {"paths": ["labels"]}}
        self._call(lambda: server.publisher.update_topic(request=request))

    def _call(self, verb: Callable[[], object]) -> None:
        try:
            verb()
        except GoogleAPICallError as error:
            raise Refused(error.message) from error


class ByPython:
    def create(self, server: Any, name: str, labels: Labels, _: Path) -> None:
        topic = types.Topic(name=name, labels=labels)
        self._call(server, lambda client: client.create_topic(topic))

    def update(self, server: Any, name: str, labels: Labels) -> None:
        topic = types.Topic(name=name, labels=labels)
        self._call(server, lambda client: client.update_topic(topic, ["labels"]))

    def _call(self, server: Any, verb: Callable[[Client], object]) -> None:
        try:
            with Client(server.endpoint) as client:
                verb(client)
        except CallFailed as failure:
            raise Refused(failure.message) from failure


class ByGoogleForm:
    def create(self, server: Any, name: str, labels: Labels, _: Path) -> None:
        rest(server, "PUT", f"/v1/{name}", {"labels": dict(labels)})

    def update(self, server: Any, name: str, labels: Labels) -> None:
        body = {"topic": {"labels": dict(labels)}, "updateMask": "labels"}
        rest(server, "PATCH", f"/v1/{name}", body)


class ByShortForm:
    """Fields where there are some: `ordering` is one of a new topic alone."""

    def create(self, server: Any, name: str, labels: Labels, _: Path) -> None:
        body = {"name": name.rpartition("/")[2], **self._body(labels, is_new=True)}
        rest(server, "POST", "/v1/topics", body)

    def update(self, server: Any, name: str, labels: Labels) -> None:
        path = f"/v1/topics/{name.rpartition('/')[2]}"
        rest(server, "PATCH", path, self._body(labels, is_new=False))

    def _body(self, labels: Labels, *, is_new: bool) -> dict[str, Any]:
        body: dict[str, Any] = {}
        rest_of: dict[str, str] = {}
        for label, text in labels.items():
            if label in _RATES and re.fullmatch(r"-?\d+", text):
                body[_RATES[label].replace("-", "_")] = int(text)
            elif label == ORDERING and is_new:
                body["ordering"] = text
            else:
                rest_of[label] = text
        return body | ({"labels": rest_of} if rest_of or not labels else {})


class ByCommand:
    """`fanlog topic create` and `fanlog topic update`, by their options."""

    def create(self, server: Any, name: str, labels: Labels, _: Path) -> None:
        words = [word for pair in labels.items() for word in self._words(*pair, is_new=True)]
        command(server, "topic", "create", name, *words)

    def update(self, server: Any, name: str, labels: Labels) -> None:
        words = [word for pair in labels.items() for word in self._words(*pair, is_new=False)]
        command(server, "topic", "update", name, *(words or ["--no-labels"]))

    def _words(self, label: str, text: str, *, is_new: bool) -> list[str]:
        if label in _RATES and re.fullmatch(r"-?\d+", text):
            return [f"--{_RATES[label]}", text]
        if label == ORDERING and is_new:
            return ["--ordering", text]
        return ["--label", f"{label}={text}"]


class ByLabel(ByCommand):
    """The same by `--label`."""

    def _words(self, label: str, text: str, *, is_new: bool) -> list[str]:
        return ["--label", f"{label}={text}"]


class ByFile:
    def create(self, server: Any, name: str, labels: Labels, folder: Path) -> None:
        ensured(server, folder, {"topics": {name: {"labels": dict(labels)}}})

    def update(self, server: Any, name: str, labels: Labels) -> None:
        raise Unsaid("a file changes nothing")


TOPICS: dict[str, Any] = {
    "grpc": ByGrpc(),
    "python": ByPython(),
    "google": ByGoogleForm(),
    "short": ByShortForm(),
    "options": ByCommand(),
    "labels": ByLabel(),
    "file": ByFile(),
}
