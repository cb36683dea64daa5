"""fanlog.v1.Replay as each surface has it: gRPC, and the three forms of REST.

Every face takes full names and plain values, and answers with plain values in snake_case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import requests
from google.protobuf import json_format

from fanlog.client import CallFailed, Client
from fanlog.config import PROJECT_DEFAULT
from fanlog.v1 import replay_pb2
from server.conftest import PATIENCE_S, RunningServer
from server.unique import unique

FACES = ("grpc", "google", "path", "short")


class Refused(Exception):
    """A request was refused, with this status and sentence."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status, self.message = status, message


class Grpc:
    def __init__(self, server: RunningServer) -> None:
        self._client = Client(server.endpoint)

    def close(self) -> None:
        self._client.close()

    def reopen(self, subscription: str, **what: Any) -> Any:
        return self._call("Reopen", subscription, what)

    def redrive(self, subscription: str, **what: Any) -> Any:
        return self._call("Redrive", subscription, what)

    def discard(self, subscription: str, **what: Any) -> Any:
        return self._call("Discard", subscription, what)

    def letters(self, subscription: str, **what: Any) -> Any:
        return self._call("ListDeadLetters", subscription, what)

    def _call(self, method: str, subscription: str, what: Mapping[str, Any]) -> Any:
        request = getattr(replay_pb2, f"{method}Request")(subscription=subscription, **what)
        answer = getattr(replay_pb2, f"{method}Response")
        try:
            found = self._client.call(f"fanlog.v1.Replay/{method}", request, answer)
        except CallFailed as error:
            raise Refused(error.status, error.message) from error
        return plain(
            json_format.MessageToDict(
                found, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
        )


class Rest:
    """One of the forms."""

    def __init__(self, server: RunningServer, form: str) -> None:
        self._server = server
        self._form = form
        self._session = requests.Session()

    def close(self) -> None:
        self._session.close()

    def reopen(self, subscription: str, **what: Any) -> Any:
        return self._post("reopen", subscription, what)

    def redrive(self, subscription: str, **what: Any) -> Any:
        return self._post("redrive", subscription, what)

    def discard(self, subscription: str, **what: Any) -> Any:
        return self._post("discard", subscription, what)

    def letters(self, subscription: str, **what: Any) -> Any:
        word = "dead_letters" if self._form == "short" else "deadLetters"
        path = f"{self._path(subscription)}/{word}"
        parameters = what if self._form == "short" else {camel(k): v for k, v in what.items()}
        return self._call("GET", path, params=parameters)

    def _post(self, verb: str, subscription: str, what: Mapping[str, Any]) -> Any:
        colon = "/" if self._form == "path" else ":"
        body = {key: jsonable(value) for key, value in what.items()}
        if self._form != "short":
            body = {camel(key): value for key, value in body.items()}
        return self._call("POST", f"{self._path(subscription)}{colon}{verb}", json=body)

    def _path(self, subscription: str) -> str:
        if self._form == "short":
            return f"/v1/subscriptions/{subscription.rpartition('/')[2]}"
        return f"/v1/{subscription}"

    def _call(self, method: str, path: str, **options: Any) -> Any:
        url = self._server.http(path)
        response = self._session.request(method, url, timeout=PATIENCE_S, **options)
        found = response.json()
        if response.status_code != 200:
            raise Refused(found["error"]["status"], found["error"]["message"])
        return plain(found)


def face_of(server: RunningServer, name: str) -> Grpc | Rest:
    return Grpc(server) if name == "grpc" else Rest(server, name)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def jsonable(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


class Count(dict[str, Any]):
    """An answer in which what is not said is 0, as protobuf's JSON leaves it out."""

    def __missing__(self, key: str) -> int:
        return 0


_COUNTS = ("reopened", "skipped", "copied", "discarded", "delivery_attempts")


def plain(answer: Any) -> Any:
    """An answer with the same names and numbers whatever form it came in."""
    if isinstance(answer, list):
        return [plain(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    found = Count(
        {
            snake(key): value if key == "attributes" else plain(value)
            for key, value in answer.items()
        }
    )
    for name in _COUNTS:
        if name in found:
            found[name] = int(found[name])
    if "id" in found:
        found["message_id"] = found.pop("id")
    return found


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def topic(server: RunningServer, **fields: Any) -> str:
    """A topic in the default project: all forms can name it."""
    return server.topic(name=f"projects/{PROJECT_DEFAULT}/topics/{unique('topic')}", **fields)


def subscription(server: RunningServer, on: str, **fields: Any) -> str:
    name = f"projects/{PROJECT_DEFAULT}/subscriptions/{unique('sub')}"
    return server.subscription(on, name=name, **fields)


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def partition_of(message_id: str) -> int:
    return int(message_id[:-12])


def taken(server: RunningServer, name: str) -> list[bytes]:
    """Pull and acknowledge all there is."""
    return list(_taken(server, name))


def _taken(server: RunningServer, name: str) -> Iterator[bytes]:
    while received := server.pull(name):
        server.ack(name, received)
        for one in received:
            yield one.message.data


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]
