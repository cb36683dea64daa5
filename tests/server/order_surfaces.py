"""The label `fanlog-ordering` of topics, and orders of copies, said on every surface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.api_core.exceptions import GoogleAPICallError

from fanlog.client import CallFailed, Client
from fanlog.wire import types
from server.asking_surfaces import Refused, Unsaid, command, rest
from server.setting_surfaces import ensured

LABEL = "fanlog-ordering"


class ByGrpc:
    def create(self, server: Any, name: str, ordering: str, _: Path) -> None:
        topic = {"name": name, "labels": {LABEL: ordering}}
        self._call(lambda: server.publisher.create_topic(request=topic))

    def update(self, server: Any, name: str, ordering: str | None) -> None:
        labels = {} if ordering is None else {LABEL: ordering}
        request = {"topic": {"name": name, "labels": labels}, "update_mask": {"paths": ["labels"]}}
        self._call(lambda: server.publisher.update_topic(request=request))

    def _call(self, verb: Callable[[], object]) -> None:
        try:
            verb()
        except GoogleAPICallError as error:
            raise Refused(error.message) from error


class ByPython:
    def create(self, server: Any, name: str, ordering: str, _: Path) -> None:
        topic = types.Topic(name=name, labels={LABEL: ordering})
        self._call(server, lambda client: client.create_topic(topic))

    def update(self, server: Any, name: str, ordering: str | None) -> None:
        topic = types.Topic(name=name, labels={} if ordering is None else {LABEL: ordering})
        self._call(server, lambda client: client.update_topic(topic, ["labels"]))

    def _call(self, server: Any, verb: Callable[[Client], object]) -> None:
        try:
            with Client(server.endpoint) as client:
                verb(client)
        except CallFailed as failure:
            raise Refused(failure.message) from failure


class ByGoogleForm:
    def create(self, server: Any, name: str, ordering: str, _: Path) -> None:
        rest(server, "PUT", f"/v1/{name}", {"labels": {LABEL: ordering}})

    def update(self, server: Any, name: str, ordering: str | None) -> None:
        labels = {} if ordering is None else {LABEL: ordering}
        body = {"topic": {"labels": labels}, "updateMask": "labels"}
        rest(server, "PATCH", f"/v1/{name}", body)


class ByShortForm:
    """The field `ordering` when it is made; it is no field of a change, but its label is."""

    def create(self, server: Any, name: str, ordering: str, _: Path) -> None:
        rest(server, "POST", "/v1/topics", {"name": name.rpartition("/")[2], "ordering": ordering})

    def update(self, server: Any, name: str, ordering: str | None) -> None:
        labels = {} if ordering is None else {LABEL: ordering}
        rest(server, "PATCH", f"/v1/topics/{name.rpartition('/')[2]}", {"labels": labels})


class ByCommand:
    def create(self, server: Any, name: str, ordering: str, _: Path) -> None:
        command(server, "topic", "create", name, "--ordering", ordering)

    def update(self, server: Any, name: str, ordering: str | None) -> None:
        words = ["--no-labels"] if ordering is None else ["--label", f"{LABEL}={ordering}"]
        command(server, "topic", "update", name, *words)


class ByLabel(ByCommand):
    def create(self, server: Any, name: str, ordering: str, _: Path) -> None:
        command(server, "topic", "create", name, "--label", f"{LABEL}={ordering}")


class ByFile:
    def create(self, server: Any, name: str, ordering: str, folder: Path) -> None:
        ensured(server, folder, {"topics": {name: {"labels": {LABEL: ordering}}}})

    def update(self, server: Any, name: str, ordering: str | None) -> None:
        raise Unsaid("a file changes nothing")


ORDERS: dict[str, Any] = {
    "grpc": ByGrpc(),
    "python": ByPython(),
    "google": ByGoogleForm(),
    "short": ByShortForm(),
    "options": ByCommand(),
    "labels": ByLabel(),
    "file": ByFile(),
}
